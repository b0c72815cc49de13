// Heat that flows over a plate, in integers.
//
// Input: four numbers, width, height, steps and sweeps in a step; then rectangles of five numbers: left,
// top, width, height, temperature. A temperature is from 0 to 32767. The cells of a rectangle are held at
// their temperature; all others begin at zero. In a sweep a cell becomes half of itself and an eighth of
// each of its four neighbours, rounded down; beyond the edge there is the cell itself, so no heat leaves.
// The output is a picture in the format PGM.
//
// State: the four numbers, each in four bytes; then two bytes for each cell, the highest bit for held.

import { atEnd, give, open, readNumber, stop, take, writeNumber } from "../sdk/opengpu";
export { alloc } from "../sdk/opengpu";

const HEAD: u32 = 16;
const MAX_SIDE: u32 = 176;
const MAX_STEPS: u32 = 1000000;
const MAX_SWEEPS: u32 = 64;
const HOTTEST: u32 = 32767;
const HELD: u32 = 32768;

// @ts-ignore: decorator
@inline function width(state: u32): u32 { return load<u32>(state); }
// @ts-ignore: decorator
@inline function height(state: u32): u32 { return load<u32>(state, 4); }
// @ts-ignore: decorator
@inline function steps_(state: u32): u32 { return load<u32>(state, 8); }
// @ts-ignore: decorator
@inline function sweeps(state: u32): u32 { return load<u32>(state, 12); }

function check(state: u32, length: u32): void {
  if (length < HEAD || width(state) > MAX_SIDE || height(state) > MAX_SIDE) stop();
  if (length != HEAD + width(state) * height(state) * 2) stop();
}

export function init(input: u32, length: u32): u64 {
  open(input, length);
  const columns = readNumber(1, MAX_SIDE);
  const rows = readNumber(1, MAX_SIDE);
  const size = HEAD + columns * rows * 2;
  const state = take(size);
  store<u32>(state, columns);
  store<u32>(state, rows, 4);
  store<u32>(state, readNumber(1, MAX_STEPS), 8);
  store<u32>(state, readNumber(1, MAX_SWEEPS), 12);
  while (!atEnd()) {
    const left = readNumber(0, columns - 1);
    const top = readNumber(0, rows - 1);
    const right = left + readNumber(1, columns - left);
    const bottom = top + readNumber(1, rows - top);
    const temperature = readNumber(0, HOTTEST);
    for (let y = top; y < bottom; y++) {
      for (let x = left; x < right; x++) {
        store<u16>(state + HEAD + (y * columns + x) * 2, <u16>(HELD | temperature));
      }
    }
  }
  return give(state, size);
}

export function steps(state: u32, length: u32): u64 {
  check(state, length);
  return steps_(state);
}

// @ts-ignore: decorator
@inline function temperature(cell: u32): u32 { return <u32>load<u16>(cell) & HOTTEST; }

function sweep(from: u32, to: u32, columns: u32, rows: u32): void {
  const row = columns * 2;
  for (let y: u32 = 0; y < rows; y++) {
    const above: u32 = y > 0 ? row : 0;
    const below: u32 = y + 1 < rows ? row : 0;
    for (let x: u32 = 0; x < columns; x++) {
      const cell = <u32>load<u16>(from);
      if ((cell & HELD) != 0) {
        store<u16>(to, <u16>cell);
      } else {
        const left: u32 = x > 0 ? 2 : 0;
        const right: u32 = x + 1 < columns ? 2 : 0;
        const around = temperature(from - above) + temperature(from + below)
          + temperature(from - left) + temperature(from + right);
        store<u16>(to, <u16>((cell * 4 + around) >> 3));
      }
      from += 2;
      to += 2;
    }
  }
}

export function step(state: u32, length: u32, number: u64): u64 {
  check(state, length);
  if (number == 0 || number > steps_(state)) stop();
  const other = take(length);
  memory.copy(other, state, HEAD);
  let from = state;
  let to = other;
  for (let rest = sweeps(state); rest > 0; rest--) {
    sweep(from + HEAD, to + HEAD, width(state), height(state));
    const done = to;
    to = from;
    from = done;
  }
  return give(from, length);
}

export function finish(state: u32, length: u32): u64 {
  check(state, length);
  const cells = width(state) * height(state);
  const picture = take(32 + cells);
  let at = picture;
  store<u16>(at, 0x3550); // "P5"
  store<u8>(at, 10, 2);
  at = writeNumber(at + 3, width(state));
  store<u8>(at++, 32);
  at = writeNumber(at, height(state));
  store<u32>(at, 0x3535320a); // a new line, "255"
  store<u8>(at, 10, 4);
  at += 5;
  for (let i: u32 = 0; i < cells; i++) {
    store<u8>(at++, <u8>(temperature(state + HEAD + i * 2) >> 7));
  }
  return give(picture, at - picture);
}
