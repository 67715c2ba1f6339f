import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Paths } from '../../home/paths.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { note } from '../print/output.ts';

const BUILT_IN = /^(local\/)?svc-mini$/;

/** Says once per home that the built-in model is small, and how to use another. */
export function noteBuiltIn({ provider, model }: Results['run.get'], paths: Paths): void {
  if (provider !== 'local' || !BUILT_IN.test(model)) return;
  try {
    mkdirSync(paths.cache, { recursive: true, mode: 0o700 });
    writeFileSync(join(paths.cache, 'built-in-noted'), '', { flag: 'wx', mode: 0o600 });
  } catch {
    // It was said before, or the file cannot be written. Do not repeat it for each prompt.
    return;
  }
  note(
    'This is the built-in model: it is small and knows only svc. For a larger one: svc model pull qwen3:0.6b, then svc run "…" --model qwen3:0.6b. See also: svc model search, svc provider add --help',
  );
}
