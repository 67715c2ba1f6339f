/** Numbers of a log line. They are made for each run, so they are plain arithmetic. */

/** `0.12 s`, `3.4 s`, `75 s`. */
export function seconds(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  const digits = s < 1 ? 100 : s < 10 ? 10 : 1;
  return `${Math.round(s * digits) / digits} s`;
}

/** `5.3 MiB`, `640 MiB`. */
export function mebibytes(bytes: number): string {
  const mib = bytes / (1024 * 1024);
  return `${mib < 10 ? Math.round(mib * 10) / 10 : Math.round(mib)} MiB`;
}

/** `1 run`, `3 runs`. */
export function count(n: number, one: string): string {
  return `${n} ${one}${n === 1 ? '' : 's'}`;
}
