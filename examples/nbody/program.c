// Bodies under gravity in the plane, in integers: every step emits where they are.
//
// Input: two numbers, steps and moves in a step, and for each of up to 16 bodies a line of five: mass,
// place (x, y), velocity (x, y). Places and velocities are in thousandths; a mass is the acceleration
// that it causes at distance one, in thousandths. One move is 1/1024 of the unit of time.
//
// Places are fixed-point with 20 bits behind the point, velocities with 30, because a move adds little
// to them. Places stay within 64 of the origin, so that no product here exceeds 63 bits: a body that
// goes beyond stops the program. Divisions round towards zero, shifts down.

#include "../sdk/opengpu.h"

enum { MAX_BODIES = 16, MAX_STEPS = 65536, MAX_MOVES = 64, POINT = 20, MOVE = 10, FAR = 64 };

#define ONE (1ll << POINT)

typedef struct {
  i64 mass;
  i64 x, y;    // 20 bits behind the point
  i64 vx, vy;  // 30 bits behind the point
} Body;

typedef struct {
  u32 steps;
  u32 moves;
  u32 count;
  u32 unused;  // so that the bytes of a state are all named
  Body bodies[MAX_BODIES];
} State;

static State *state_of(u8 *bytes, u32 length) {
  State *state = (State *)bytes;
  if (length != sizeof(State) || state->count > MAX_BODIES) stop();
  return state;
}

u64 EXPORT(init)(u8 *input, u32 length) {
  Reader text = reader(input, length);
  State *state = take(sizeof *state);
  state->steps = (u32)read_number(&text, 1, MAX_STEPS);
  state->moves = (u32)read_number(&text, 1, MAX_MOVES);
  while (!at_end(&text)) {
    if (state->count == MAX_BODIES) stop();
    Body *body = &state->bodies[state->count++];
    body->mass = read_number(&text, 0, 1000000) * ONE / 1000;
    body->x = read_number(&text, -FAR * 1000, FAR * 1000) * ONE / 1000;
    body->y = read_number(&text, -FAR * 1000, FAR * 1000) * ONE / 1000;
    body->vx = read_number(&text, -100000, 100000) * (ONE << MOVE) / 1000;
    body->vy = read_number(&text, -100000, 100000) * (ONE << MOVE) / 1000;
  }
  return give(state, sizeof *state);
}

u64 EXPORT(steps)(u8 *bytes, u32 length) { return state_of(bytes, length)->steps; }

// The largest number whose square is not larger.
static u64 root(u64 square) {
  u64 found = 0;
  for (u64 bit = 1ull << 31; bit != 0; bit >>= 1) {
    u64 tried = found | bit;
    if (tried * tried <= square) found = tried;
  }
  return found;
}

// Lets the bodies pull at each other for one move.
static void pull(State *state) {
  for (u32 i = 0; i < state->count; i++) {
    for (u32 j = i + 1; j < state->count; j++) {
      Body *one = &state->bodies[i], *other = &state->bodies[j];
      i64 dx = other->x - one->x, dy = other->y - one->y;
      // A little is added to the square of the distance, so that nothing flies off when bodies meet.
      i64 square = (dx * dx >> POINT) + (dy * dy >> POINT) + ONE / 1024;
      i64 distance = (i64)root((u64)square << POINT);
      i64 cube = square * distance >> POINT;
      // The velocity gains acceleration times 1/1024, which is the same number with ten more bits.
      one->vx += other->mass * dx / cube;
      one->vy += other->mass * dy / cube;
      other->vx -= one->mass * dx / cube;
      other->vy -= one->mass * dy / cube;
    }
  }
}

// Moves the bodies on.
static void drift(State *state) {
  const i64 far = FAR * ONE;
  for (u32 i = 0; i < state->count; i++) {
    Body *body = &state->bodies[i];
    body->x += body->vx >> (MOVE + MOVE);
    body->y += body->vy >> (MOVE + MOVE);
    if (body->x > far || body->x < -far || body->y > far || body->y < -far) stop();
  }
}

u64 EXPORT(step)(u8 *bytes, u32 length, u64 number) {
  State *state = state_of(bytes, length);
  if (number == 0 || number > state->steps) stop();
  for (u32 i = 0; i < state->moves; i++) {
    pull(state);
    drift(state);
  }
  // One line: the number of the step, and the places in thousandths.
  Writer line = writer(16 + MAX_BODIES * 2 * 12);
  write_number(&line, (i64)number);
  for (u32 i = 0; i < state->count; i++) {
    write_byte(&line, '\t');
    write_number(&line, state->bodies[i].x * 1000 >> POINT);
    write_byte(&line, '\t');
    write_number(&line, state->bodies[i].y * 1000 >> POINT);
  }
  write_byte(&line, '\n');
  emit(line.begin, written(&line));
  return give(state, sizeof *state);
}

// The lines were emitted; nothing is left to say.
u64 EXPORT(finish)(u8 *bytes, u32 length) {
  return give(state_of(bytes, length), 0);
}
