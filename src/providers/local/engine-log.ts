import type { Readable } from 'node:stream';
import type { Log } from '../../kernel/port.ts';
import type { Limits } from '../../limits.ts';

/**
 * Copies the output of the engine process to the log, line by line. Cuts long lines, and drops
 * lines after the bound.
 */
export function logLines(
  source: Readable,
  log: Log,
  limits: Pick<Limits, 'log_line_bytes' | 'engine_log_lines'>,
  fields: object,
): void {
  const lengthMax = Math.floor(limits.log_line_bytes / 4);
  let rest = '';
  let lines = 0;
  const write = (line: string) => {
    lines += 1;
    if (line === '' || lines > limits.engine_log_lines + 1) return;
    log.debug(
      fields,
      lines > limits.engine_log_lines
        ? 'more of what the engine prints is left out'
        : line.slice(0, lengthMax),
    );
  };
  source.setEncoding('utf8');
  source.on('data', (text: string) => {
    const parts = (rest + text).split('\n');
    rest = (parts.pop() ?? '').slice(0, lengthMax);
    for (const line of parts) write(line.trimEnd());
  });
  source.on('end', () => write(rest.trimEnd()));
  source.on('error', () => {});
}
