import { StringDecoder } from 'node:string_decoder';

/**
 * Splits bytes into lines of UTF-8. The function takes a chunk. It returns false for good once a
 * line exceeds the bound, and keeps nothing more.
 */
export function createLineSplitter(
  maxBytes: number,
  onLine: (line: string) => void,
): (chunk: Buffer) => boolean {
  const decoder = new StringDecoder('utf8');
  let parts: string[] = [];
  let bytes = 0;
  let broken = false;
  return (chunk) => {
    if (broken) return false;
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0 && !broken; end = chunk.indexOf(10, start)) {
      broken = bytes + end - start > maxBytes;
      if (broken) break;
      const line = parts.join('') + decoder.write(chunk.subarray(start, end));
      parts = [];
      bytes = 0;
      start = end + 1;
      if (line !== '') onLine(line);
    }
    if (!broken && start < chunk.length) {
      parts.push(decoder.write(chunk.subarray(start)));
      bytes += chunk.length - start;
      broken = bytes > maxBytes;
    }
    if (broken) parts = [];
    return !broken;
  };
}
