import { oneLine } from '../logs/plain.ts';

/** The last lines of llama.cpp about errors. */
const complaints: string[] = [];
const COMPLAINTS_MAX = 32;
const REASON_MAX = 240;
/** The reader of the header says it after its own reason. */
const NO_REASON = /^llama_model_loader: failed to load model from /;

/** Logs the lines of llama.cpp, and keeps its errors. */
export function logNative(level: 'warn' | 'error', line: string): void {
  console.error(`${level} ${line}`);
  if (level === 'error') complaints.push(line.trim());
  if (complaints.length > COMPLAINTS_MAX) complaints.shift();
}

/**
 * Why llama.cpp could not load the model, in its own words. Null: it gave no reason. The reason
 * repeats texts of the file.
 */
export function loadProblem(): string | null {
  const reasons = complaints
    .flatMap((line) => /error loading model: (.*)/s.exec(line)?.[1] ?? [])
    .filter((reason) => !NO_REASON.test(reason));
  const [first] = reasons.length > 0 ? reasons : complaints;
  return first === undefined ? null : oneLine(first).slice(0, REASON_MAX).toWellFormed();
}
