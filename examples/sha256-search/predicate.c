// Says whether an output of sha256-search is true, and as good as such a search should be.
//
// It gets the length of the input (four bytes), the input and the output, and says yes by the one byte 1.
// Yes means: the text has the prefix of the input and a number that was to be tried, its sha-256 and the
// zero bits are those that are told, and there are at most four bits fewer than the search finds on
// average. Whether another number is better still is not known without the search: that is what is
// paid for, and luck as bad as this comes once in ten million.

#include "../sdk/opengpu.h"

enum { DIGITS = 16, MAX_PREFIX = 39, LUCK = 4 };

static const u32 START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static const u32 ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

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
  for (u32 i = 0; i < 8; i++) hash[i] = START[i];
#pragma clang loop unroll(disable)
  for (u32 i = 0; i < 64; i++) {
    u32 a = hash[0], e = hash[4];
    u32 first = hash[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
                ((e & hash[5]) ^ (~e & hash[6])) + ROUND[i] + words[i];
    u32 second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) +
                 ((a & hash[1]) ^ (a & hash[2]) ^ (hash[1] & hash[2]));
    for (u32 j = 7; j > 0; j--) hash[j] = hash[j - 1];
    hash[4] += first;
    hash[0] = first + second;
  }
  for (u32 i = 0; i < 8; i++) hash[i] += START[i];
}

static u32 leading_zeros(const u32 hash[8]) {
  for (u32 bit = 0; bit < 256; bit++)
    if (hash[bit / 32] >> (31 - bit % 32) & 1) return bit;
  return 256;
}

// A predicate travels in a transaction, so it is small: nothing is there twice.
#define ONCE __attribute__((noinline)) static

// The next byte; behind the last one there is nothing to judge.
ONCE u8 next(Reader *text) {
  if (text->at == text->end) stop();
  return *text->at++;
}

ONCE void expect(Reader *text, const char *wanted) {
  while (*wanted != 0)
    if (next(text) != (u8)*wanted++) stop();
}

ONCE u32 hex_digit(Reader *text) {
  u8 byte = next(text);
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte < 'a' || byte > 'f') stop();
  return byte - 'a' + 10;
}

ONCE u64 number_in(Reader *text, i64 least, i64 most) {
  return (u64)read_number(text, least, most);
}

u64 EXPORT(init)(u8 *given, u32 length) {
  if (length < 4) stop();
  u32 wanted = *(u32 *)given;
  if (wanted > length - 4) stop();
  Reader input = reader(given + 4, wanted), output = reader(given + 4 + wanted, length - 4 - wanted);
  u8 *block = take(64);
  u32 prefix = 0;
  while (input.at < input.end && *input.at != '\n') {
    if (prefix == MAX_PREFIX) stop();
    block[prefix++] = *input.at++;
  }
  u64 count = number_in(&input, 1, 1ll << 40);

  expect(&output, "bits ");
  u32 bits = (u32)number_in(&output, 0, 256);
  expect(&output, "\ntext ");
  for (u32 i = 0; i < prefix; i++)
    if (next(&output) != block[i]) stop();
  u64 number = 0;
  for (u32 i = 0; i < DIGITS; i++) {
    block[prefix + i] = *output.at;
    number = number << 4 | hex_digit(&output);
  }
  u32 message = prefix + DIGITS;
  block[message] = 0x80;
  block[62] = (u8)(message * 8 >> 8);
  block[63] = (u8)(message * 8);
  u32 hash[8];
  compress(block, hash);
  expect(&output, "\nsha-256 ");
  for (u32 i = 0; i < 64; i++)
    if (hex_digit(&output) != (hash[i / 8] >> (28 - i % 8 * 4) & 15)) stop();
  expect(&output, "\n");

  u32 expected = 63 - (u32)__builtin_clzll(count);
  u8 *said = take(1);
  *said = output.at == output.end && number < count && leading_zeros(hash) == bits &&
          bits + LUCK >= expected;
  return give(said, 1);
}

// A predicate is asked for its first state only.
u64 EXPORT(steps)(u8 *bytes, u32 length) { return (u64)(bytes == 0 && length == 0); }
u64 EXPORT(step)(u8 *bytes, u32 length, u64 number) { return give(bytes, length + (u32)number * 0); }
u64 EXPORT(finish)(u8 *bytes, u32 length) { return give(bytes, length); }
