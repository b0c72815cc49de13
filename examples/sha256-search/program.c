// Searches the number whose sha-256 has the most leading zero bits.
//
// Input: two lines, a prefix of 1 to 39 printable characters and how many numbers to try.
// What is hashed is the prefix and then the number as 16 hexadecimal digits, so that every claim can be
// repeated in a shell. One step tries NONCES numbers; the state is the best of all before it.
// Among equals the smaller number wins. The last step may be shorter.

#include "../sdk/opengpu.h"

enum { NONCES = 128, DIGITS = 16, MAX_PREFIX = 39 };

typedef struct {
  u64 count;       // numbers to try in all
  u64 best;        // the best number so far
  u32 bits;        // leading zero bits of its hash
  u32 prefix_length;
  u8 digest[32];
  u8 prefix[40];  // with the digits, the mark and the length it fits into one block of sha-256
} State;

static const u32 ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static const u32 START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static inline u32 turn(u32 word, u32 by) { return word >> by | word << (32 - by); }

// The hash, as eight words, of a message that fits into one padded block.
static void compress(const u8 block[64], u32 hash[8]) {
  u32 words[64];
  for (u32 i = 0; i < 16; i++) {
    const u8 *at = block + i * 4;
    words[i] = (u32)at[0] << 24 | (u32)at[1] << 16 | (u32)at[2] << 8 | at[3];
  }
  for (u32 i = 16; i < 64; i++) {
    u32 near = words[i - 2], far = words[i - 15];
    words[i] = words[i - 16] + (turn(far, 7) ^ turn(far, 18) ^ far >> 3) + words[i - 7] +
               (turn(near, 17) ^ turn(near, 19) ^ near >> 10);
  }
  u32 a = START[0], b = START[1], c = START[2], d = START[3];
  u32 e = START[4], f = START[5], g = START[6], h = START[7];
  for (u32 i = 0; i < 64; i++) {
    u32 first = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[i] +
                words[i];
    u32 second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  u32 after[8] = {a, b, c, d, e, f, g, h};
  for (u32 i = 0; i < 8; i++) hash[i] = START[i] + after[i];
}

static u32 leading_zeros(const u32 hash[8]) {
  u32 bits = 0;
  for (u32 i = 0; i < 8; i++) {
    if (hash[i] != 0) return bits + (u32)__builtin_clz(hash[i]);
    bits += 32;
  }
  return bits;
}

static void write_digits(u8 *place, u64 number) {
  for (u32 i = DIGITS; i-- > 0; number >>= 4) place[i] = (u8) "0123456789abcdef"[number & 15];
}

static State *state_of(u8 *bytes, u32 length) {
  if (length != sizeof(State)) stop();
  return (State *)bytes;
}

static u64 steps_of(const State *state) { return (state->count + NONCES - 1) / NONCES; }

u64 EXPORT(init)(u8 *input, u32 length) {
  Reader text = reader(input, length);
  State *state = take(sizeof *state);
  while (text.at < text.end && *text.at != '\n') {
    if (*text.at <= ' ' || *text.at > '~' || state->prefix_length == MAX_PREFIX) stop();
    state->prefix[state->prefix_length++] = *text.at++;
  }
  state->count = (u64)read_number(&text, 1, 1ll << 40);
  if (state->prefix_length == 0 || !at_end(&text)) stop();
  return give(state, sizeof *state);
}

u64 EXPORT(steps)(u8 *bytes, u32 length) { return steps_of(state_of(bytes, length)); }

u64 EXPORT(step)(u8 *bytes, u32 length, u64 number) {
  State *state = state_of(bytes, length);
  if (number == 0 || number > steps_of(state) || state->prefix_length > MAX_PREFIX) stop();
  u8 *block = take(64);
  for (u32 i = 0; i < state->prefix_length; i++) block[i] = state->prefix[i];
  u32 message = state->prefix_length + DIGITS;
  block[message] = 0x80;
  block[62] = (u8)(message * 8 >> 8);
  block[63] = (u8)(message * 8);
  u64 first = (number - 1) * NONCES;
  u64 behind = first + NONCES < state->count ? first + NONCES : state->count;
  for (u64 nonce = first; nonce < behind; nonce++) {
    u32 hash[8];
    write_digits(block + state->prefix_length, nonce);
    compress(block, hash);
    u32 bits = leading_zeros(hash);
    if (nonce != 0 && bits <= state->bits) continue;
    state->best = nonce;
    state->bits = bits;
    for (u32 i = 0; i < 32; i++) state->digest[i] = (u8)(hash[i / 4] >> (24 - i % 4 * 8));
  }
  return give(state, sizeof *state);
}

u64 EXPORT(finish)(u8 *bytes, u32 length) {
  State *state = state_of(bytes, length);
  if (state->prefix_length > MAX_PREFIX) stop();
  Writer text = writer(256);
  write_text(&text, "bits ");
  write_number(&text, state->bits);
  write_text(&text, "\ntext ");
  u8 digits[DIGITS];
  write_digits(digits, state->best);
  for (u32 i = 0; i < state->prefix_length; i++) write_byte(&text, state->prefix[i]);
  for (u32 i = 0; i < DIGITS; i++) write_byte(&text, digits[i]);
  write_text(&text, "\nsha-256 ");
  for (u32 i = 0; i < 32; i++) write_hex(&text, state->digest[i]);
  write_byte(&text, '\n');
  return give(text.begin, written(&text));
}
