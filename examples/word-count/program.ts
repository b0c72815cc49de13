// Counts the words of a text, piece by piece.
//
// Input: a text. A word is a run of the letters a to z; upper case counts as lower, every other byte lies
// between words, and of a word only the first 24 letters count. One step takes PIECE bytes of what is left
// of the text, and on to the end of a word that it would cut. The output is a table: how many words, how
// many different ones, how many that found no room; then the 20 most frequent, equals by the alphabet.
//
// State: four numbers of four bytes (bytes of the table, words listed, words counted, words without room);
// the table in the order of first appearance, each word as its length, its letters and its count in four
// bytes; and what is left of the text. A text gets shorter faster than the table grows, so that a state
// is hardly larger than the input.

import { give, stop, take, writeNumber } from "../sdk/opengpu";
export { alloc } from "../sdk/opengpu";

const HEAD: u32 = 16;
const PIECE: u32 = 1024;
const LONGEST: u32 = 24;
const TABLE: u32 = 16384; // bytes of the table at most
const SLOTS: u32 = 4096; // a power of two, more than words fit into the table
const TOP: u32 = 20;

export function init(text: u32, length: u32): u64 {
  const state = take(HEAD + length);
  memory.copy(state + HEAD, text, length);
  return give(state, HEAD + length);
}

function check(state: u32, length: u32): void {
  if (length < HEAD || load<u32>(state) > TABLE || load<u32>(state) > length - HEAD) stop();
}

export function steps(state: u32, length: u32): u64 {
  check(state, length);
  return (length - HEAD + PIECE - 1) / PIECE;
}

// The letter as lower case, or zero.
// @ts-ignore: decorator
@inline function letter(byte: u32): u32 {
  const lower = byte | 32;
  return lower - 97 < 26 ? lower : 0;
}

// Places of the table's words, found by the hash of their letters. Built anew in every step.
let slots: u32 = 0;

// The slot that holds this word, or the free one where it belongs.
function slot(word: u32, letters: u32): u32 {
  let hash: u32 = 2166136261;
  for (let i: u32 = 0; i < letters; i++) hash = (hash ^ load<u8>(word + i)) * 16777619;
  let at = hash ^ (hash >> 15);
  while (true) {
    const place = slots + (at++ & (SLOTS - 1)) * 4;
    const entry = load<u32>(place);
    if (entry == 0) return place;
    if (load<u8>(entry) == letters && memory.compare(entry + 1, word, letters) == 0) return place;
  }
}

export function step(state: u32, length: u32, number: u64): u64 {
  check(state, length);
  if (number == 0) stop();
  const end = state + length;
  let at = state + HEAD + load<u32>(state);
  let until = end - at > PIECE ? at + PIECE : end;
  while (until < end && letter(load<u8>(until)) != 0) until++;

  slots = take(SLOTS * 4);
  const next = take(HEAD + TABLE + (end - until));
  let room = next + HEAD;
  memory.copy(next, state, HEAD + load<u32>(state));
  for (const behind = room + load<u32>(state); room < behind; ) {
    const letters: u32 = load<u8>(room);
    store<u32>(slot(room + 1, letters), room);
    room += letters + 5;
  }

  let listed = load<u32>(state, 4);
  let counted = load<u32>(state, 8);
  let unlisted = load<u32>(state, 12);
  const word = take(LONGEST);
  while (at < until) {
    let letters: u32 = 0;
    for (; at < until; at++) {
      const found = letter(load<u8>(at));
      if (found == 0) break;
      if (letters < LONGEST) store<u8>(word + letters++, <u8>found);
    }
    at++;
    if (letters == 0) continue;
    counted++;
    const place = slot(word, letters);
    let entry = load<u32>(place);
    if (entry == 0) {
      if (room + letters + 5 > next + HEAD + TABLE) {
        unlisted++;
        continue;
      }
      entry = room;
      store<u8>(entry, <u8>letters);
      memory.copy(entry + 1, word, letters);
      store<u32>(place, entry);
      room += letters + 5;
      listed++;
    }
    const count = entry + 1 + letters;
    store<u32>(count, load<u32>(count) + 1);
  }

  store<u32>(next, room - next - HEAD);
  store<u32>(next, listed, 4);
  store<u32>(next, counted, 8);
  store<u32>(next, unlisted, 12);
  memory.copy(room, until, end - until);
  return give(next, room - next + (end - until));
}

// @ts-ignore: decorator
@inline function count(entry: u32): u32 { return load<u32>(entry + 1 + load<u8>(entry)); }

// Whether the first of two entries stands higher in the output.
function higher(one: u32, other: u32): bool {
  if (count(one) != count(other)) return count(one) > count(other);
  const letters = min<u32>(load<u8>(one), load<u8>(other));
  for (let i: u32 = 1; i <= letters; i++) {
    const mine: u32 = load<u8>(one + i);
    const theirs: u32 = load<u8>(other + i);
    if (mine != theirs) return mine < theirs;
  }
  return load<u8>(one) < load<u8>(other);
}

let line: u32 = 0;

function writeLine(name: u32, letters: u32, number: u32): void {
  memory.copy(line, name, letters);
  store<u8>(line + letters, 9);
  line = writeNumber(line + letters + 1, number);
  store<u8>(line++, 10);
}

export function finish(state: u32, length: u32): u64 {
  check(state, length);
  const table = state + HEAD;
  const behind = table + load<u32>(state);
  const output = take(3 * 32 + TOP * (LONGEST + 12));
  line = output;
  writeLine(<u32>memory.data<u8>([40, 119, 111, 114, 100, 115, 41]), 7, load<u32>(state, 8)); // (words)
  writeLine(<u32>memory.data<u8>([40, 108, 105, 115, 116, 101, 100, 41]), 8, load<u32>(state, 4)); // (listed)
  writeLine(<u32>memory.data<u8>([40, 111, 116, 104, 101, 114, 41]), 7, load<u32>(state, 12)); // (other)
  // The highest so far, in their order; one place more, for the one that falls out.
  const top = take((TOP + 1) * 4);
  let found: u32 = 0;
  for (let entry = table; entry < behind; entry += load<u8>(entry) + 5) {
    let low: u32 = 0;
    let high = found;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (higher(load<u32>(top + middle * 4), entry)) low = middle + 1;
      else high = middle;
    }
    if (low == TOP) continue;
    const place = top + low * 4;
    memory.copy(place + 4, place, (found - low) * 4);
    store<u32>(place, entry);
    if (found < TOP) found++;
  }
  for (let i: u32 = 0; i < found; i++) {
    const entry = load<u32>(top + i * 4);
    writeLine(entry + 1, load<u8>(entry), count(entry));
  }
  return give(output, line - output);
}
