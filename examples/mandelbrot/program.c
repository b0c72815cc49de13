// The Mandelbrot set in integers: every step paints one row and emits it.
//
// Input: six numbers, width, height, most iterations, and in millionths the centre (x, y) and the width
// of what is seen. The output is a picture in the format PPM: its head comes with the first row.
// Numbers are fixed-point with 28 bits behind the point. What is seen lies within 4 of the origin, and
// a point beyond 2 has left, so no product here exceeds 63 bits.

#include "../sdk/opengpu.h"

enum { POINT = 28, MAX_SIDE = 4096, MAX_ITERATIONS = 4096 };

#define ONE (1ll << POINT)

typedef struct {
  i64 left;    // of the middle of the first point
  i64 top;
  i64 pitch;   // from one point to the next
  u32 width;
  u32 height;
  u32 iterations;
  u32 unused;  // so that the bytes of a state are all named
} State;

static State *state_of(u8 *bytes, u32 length) {
  if (length != sizeof(State)) stop();
  return (State *)bytes;
}

u64 EXPORT(init)(u8 *input, u32 length) {
  const i64 million = 1000000;
  Reader text = reader(input, length);
  State *state = take(sizeof *state);
  state->width = (u32)read_number(&text, 1, MAX_SIDE);
  state->height = (u32)read_number(&text, 1, MAX_SIDE);
  state->iterations = (u32)read_number(&text, 1, MAX_ITERATIONS);
  i64 x = read_number(&text, -2 * million, 2 * million);
  i64 y = read_number(&text, -2 * million, 2 * million);
  i64 span = read_number(&text, 1, 4 * million);
  if (!at_end(&text)) stop();
  state->pitch = span * ONE / million / state->width;
  if (state->pitch * state->height > 4 * ONE) stop();
  state->left = x * ONE / million - state->pitch * (state->width - 1) / 2;
  state->top = y * ONE / million + state->pitch * (state->height - 1) / 2;
  return give(state, sizeof *state);
}

u64 EXPORT(steps)(u8 *bytes, u32 length) { return state_of(bytes, length)->height; }

// How many iterations keep a point within the circle; `most` if all of them.
static u32 escape(i64 x, i64 y, u32 most) {
  const i64 circle = 4 * ONE;
  i64 real = 0, imaginary = 0;
  for (u32 i = 0; i < most; i++) {
    i64 squared_real = real * real >> POINT;
    i64 squared_imaginary = imaginary * imaginary >> POINT;
    if (squared_real + squared_imaginary > circle) return i;
    imaginary = (real * imaginary >> (POINT - 1)) + y;
    real = squared_real - squared_imaginary + x;
  }
  return most;
}

// A triangle wave from 0 to 255 and back, with a period of 128.
static u8 wave(u32 at) {
  u32 phase = at % 128;
  u32 height = phase < 64 ? phase : 127 - phase;
  return (u8)(height * 255 / 63);
}

u64 EXPORT(step)(u8 *bytes, u32 length, u64 number) {
  State *state = state_of(bytes, length);
  if (number == 0 || number > state->height) stop();
  Writer row = writer(32 + state->width * 3);
  if (number == 1) {
    write_text(&row, "P6\n");
    write_number(&row, state->width);
    write_byte(&row, ' ');
    write_number(&row, state->height);
    write_text(&row, "\n255\n");
  }
  i64 y = state->top - state->pitch * (i64)(number - 1);
  for (u32 i = 0; i < state->width; i++) {
    u32 count = escape(state->left + state->pitch * (i64)i, y, state->iterations);
    u32 inside = count == state->iterations;
    write_byte(&row, inside ? 0 : wave(count * 3));
    write_byte(&row, inside ? 0 : wave(count * 5 + 8));
    write_byte(&row, inside ? 0 : wave(count * 7 + 40));
  }
  emit(row.begin, written(&row));
  return give(state, sizeof *state);
}

// The rows were emitted; nothing is left to say.
u64 EXPORT(finish)(u8 *bytes, u32 length) {
  return give(state_of(bytes, length), 0);
}
