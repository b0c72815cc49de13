// What a program in AssemblyScript needs to be one: memory, answers, and plain numbers.
//
// A program exports what it needs of this file (`export { alloc } from "../sdk/opengpu"`, and `emitted`
// if it emits), and defines init, steps, step and finish (docs/spec/programs.md). Built with the stub
// runtime and without abort it imports nothing. Floats stay out, for the referee has none, and so do
// strings, arrays and classes, for they need the runtime's heap. Every visit begins in a fresh instance, so nothing here is ever given back.
// What cannot go on traps: `stop()`.

// Ends the visit as a fault of the program.
export function stop(): void {
  unreachable();
}

// Memory: an arena behind everything that the compiler has placed. The runtime's own heap needs a start
// function, which a program must not have.
let used: u32 = 0;

// As many bytes, aligned for every type, all zero.
export function take(length: u32): u32 {
  const base = <u32>__heap_base;
  const begin = (base + used + 15) & ~15;
  const end = <u64>begin + length;
  const have = <u64>memory.size() << 16;
  if (end > have && memory.grow(<i32>((end - have + 65535) >> 16)) < 0) stop();
  used = <u32>end - base;
  return begin;
}

// Where an argument of this length is written.
export function alloc(length: u32): u32 {
  return take(length);
}

// An answer is one number: the place above and the length below.
export function give(place: u32, length: u32): u64 {
  return (<u64>place << 32) | length;
}

let part: u64 = 0;

// What this step adds to the output; emitting twice would lose the first part, so it stops.
export function emit(place: u32, length: u32): void {
  if (part != 0) stop();
  part = give(place, length);
}

// Asked after each step.
export function emitted(): u64 {
  return part;
}

// Text: the input is opened once, and numbers in decimal are read from it one after the other.

let cursor: u32 = 0;
let limit: u32 = 0;

export function open(text: u32, length: u32): void {
  cursor = text;
  limit = text + length;
}

// Whether only spaces are left.
export function atEnd(): bool {
  while (cursor < limit && load<u8>(cursor) <= 32) cursor++;
  return cursor == limit;
}

// The next number; what is no number, or is not within the bounds, stops the program.
export function readNumber(least: u32, most: u32): u32 {
  if (atEnd()) stop();
  const begin = cursor;
  let number: u64 = 0;
  while (cursor < limit) {
    const digit: u32 = <u32>load<u8>(cursor) - 48;
    if (digit > 9 || cursor - begin == 18) break;
    number = number * 10 + digit;
    cursor++;
  }
  if (cursor == begin || number < least || number > most) stop();
  return <u32>number;
}

// Writes a number in decimal at a place and returns the place behind it.
export function writeNumber(place: u32, number: u32): u32 {
  let digits: u32 = 1;
  for (let rest = number / 10; rest != 0; rest /= 10) digits++;
  const end = place + digits;
  for (let at = end; at > place; number /= 10) store<u8>(--at, <u8>(48 + (number % 10)));
  return end;
}
