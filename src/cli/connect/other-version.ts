import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { readRuntimeFile } from '../../home/runtime-file.ts';
import { programVersion } from '../../home/version.ts';

/**
 * A refusal that names another version of the daemon. This program sends only what it knows. So a
 * daemon that does not know a method or a field is another one, also at equal version numbers.
 */
export function explainRefusal(error: SvcError, { runtime }: Paths): SvcError {
  if (error.code !== 'invalid_request') return error;
  const { param, details = {} } = error;
  const options = param === null ? {} : { param };
  if (details.unknown !== undefined) {
    const what = details.unknown === 'method' ? 'this command' : `the field ${param}`;
    return new SvcError(
      'invalid_request',
      `The daemon is of another version: it has not ${what}.`,
      { ...options, hint: RESTART },
    );
  }
  const found = readRuntimeFile(runtime);
  const [daemon, program] = [
    found.kind === 'present' ? found.file.version : null,
    programVersion(),
  ];
  if (daemon === null || daemon === program) return error;
  return new SvcError('invalid_request', error.message, {
    ...options,
    hint: `The daemon is of version ${daemon}, this program of ${program}. ${RESTART}`,
  });
}

const RESTART = 'To run the daemon of this version: svc restart';
