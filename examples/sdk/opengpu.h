// What a program in C needs to be one: memory, answers, parts of the output, and plain numbers.
//
// A program includes this file once and defines four functions with EXPORT: init, steps, step, finish
// (docs/spec/programs.md). It has no libc, no floats and no imports. Every visit begins in a fresh
// instance, so nothing here is ever given back. What cannot go on traps: `stop()`.

#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

#define EXPORT(name) __attribute__((export_name(#name))) name

// Ends the visit as a fault of the program.
static inline _Noreturn void stop(void) { __builtin_trap(); }

// Memory: an arena behind everything that the linker has placed.

extern u8 __heap_base;
static u32 arena_used;

// As many bytes, aligned for every type, all zero.
static inline void *take(u32 length) {
  const u32 page = 65536;
  u32 begin = ((u32)&__heap_base + arena_used + 15) & ~15u;
  u64 end = (u64)begin + length;
  u64 have = (u64)__builtin_wasm_memory_size(0) * page;
  if (end > have) {
    u64 pages = (end - have + page - 1) / page;
    if (pages > 65536 || __builtin_wasm_memory_grow(0, (u32)pages) == (__SIZE_TYPE__)-1) stop();
  }
  arena_used = (u32)(end - (u32)&__heap_base);
  return (void *)begin;
}

u32 EXPORT(alloc)(u32 length) { return (u32)take(length); }

// Answers: one number, the place above and the length below.

static inline u64 give(const void *place, u32 length) {
  return (u64)(u32)place << 32 | length;
}

// What this step adds to the output; emitting twice would lose the first part, so it stops.
static u64 part;

static inline void emit(const void *place, u32 length) {
  if (part != 0) stop();
  part = give(place, length);
}

u64 EXPORT(emitted)(void) { return part; }

// Text: numbers are read from an input and written into an output in decimal.

typedef struct {
  const u8 *at;
  const u8 *end;
} Reader;

static inline Reader reader(const u8 *text, u32 length) {
  return (Reader){text, text + length};
}

static inline void skip_spaces(Reader *reader) {
  while (reader->at < reader->end && *reader->at <= ' ') reader->at++;
}

// Whether only spaces are left.
static inline int at_end(Reader *reader) {
  skip_spaces(reader);
  return reader->at == reader->end;
}

// The next number; what is no number, or is not within the bounds, stops the program.
static inline i64 read_number(Reader *reader, i64 least, i64 most) {
  skip_spaces(reader);
  int negative = reader->at < reader->end && *reader->at == '-';
  reader->at += negative;
  const u8 *begin = reader->at;
  i64 number = 0;
  while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
    if (reader->at - begin == 18) stop();
    number = number * 10 + (*reader->at++ - '0');
  }
  if (reader->at == begin) stop();
  number = negative ? -number : number;
  if (number < least || number > most) stop();
  return number;
}

typedef struct {
  u8 *begin;
  u8 *at;
  u8 *end;
} Writer;

static inline Writer writer(u32 room) {
  u8 *begin = take(room);
  return (Writer){begin, begin, begin + room};
}

static inline u32 written(const Writer *writer) { return (u32)(writer->at - writer->begin); }

static inline void write_byte(Writer *writer, u8 byte) {
  if (writer->at == writer->end) stop();
  *writer->at++ = byte;
}

static inline void write_text(Writer *writer, const char *text) {
  while (*text != 0) write_byte(writer, (u8)*text++);
}

static inline void write_number(Writer *writer, i64 number) {
  u8 digits[20];
  u32 count = 0;
  u64 rest = number < 0 ? -(u64)number : (u64)number;
  do digits[count++] = (u8)('0' + rest % 10);
  while ((rest /= 10) != 0);
  if (number < 0) write_byte(writer, '-');
  while (count > 0) write_byte(writer, digits[--count]);
}

static inline void write_hex(Writer *writer, u8 byte) {
  const char *digits = "0123456789abcdef";
  write_byte(writer, (u8)digits[byte >> 4]);
  write_byte(writer, (u8)digits[byte & 15]);
}
