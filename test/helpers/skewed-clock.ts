import { readFileSync } from 'node:fs';

/**
 * A preload for a program of Node.js: its system clock is wrong by the milliseconds in the file
 * `SKEW_FILE`. A test sets the clock while the program runs by writing the file.
 */
const right = Date;
const file = process.env.SKEW_FILE ?? '';
let skew_ms = 0;

function read(): void {
  try {
    skew_ms = Number(readFileSync(file, 'utf8'));
  } catch {
    // No file: the clock is right.
  }
}

const now = () => right.now() + skew_ms;

globalThis.Date = new Proxy(right, {
  construct: (target, args, proxy) =>
    Reflect.construct(target, args.length === 0 ? [now()] : args, proxy),
  get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
});
read();
setInterval(read, 50).unref();
