import { readLine } from './filter.ts';

/**
 * Cuts a line to at most `max` bytes, still JSON. Fields keep their order, those that identify
 * the line first.
 * A text that is too long ends in `…`. Other fields without room are left out. `cut_bytes` is the
 * old length.
 */
export function cutLine(line: string, max: number): string {
  const bytes = Buffer.byteLength(line);
  if (bytes <= max) return line;
  const fields = readLine(line) ?? {};
  const names = [
    ...FIRST.filter((name) => name in fields),
    ...Object.keys(fields).filter((name) => !FIRST.includes(name)),
  ];
  let kept = `{"cut_bytes":${bytes}`;
  for (const name of names) {
    const head = `,${JSON.stringify(name)}:`;
    const value = fit(fields[name], max - Buffer.byteLength(kept) - Buffer.byteLength(head) - 1);
    if (value !== null) kept += head + value;
  }
  return `${kept}}`;
}

const FIRST = ['level', 'time', 'boot_id', 'run_id', 'seq', 'msg'];

/** The value as JSON of at most `room` bytes; null if it does not fit. */
function fit(value: unknown, room: number): string | null {
  const whole = JSON.stringify(value);
  if (Buffer.byteLength(whole) <= room) return whole;
  if (typeof value !== 'string' || room < SHORTEST) return null;
  for (let length = value.length; length > 0; ) {
    const text = JSON.stringify(`${value.slice(0, length)}…`);
    const bytes = Buffer.byteLength(text);
    if (bytes <= room) return text;
    length = Math.min(length - 1, Math.floor((length * room) / bytes));
  }
  return null;
}

/** A shorter text says nothing. */
const SHORTEST = 16;
