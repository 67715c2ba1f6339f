import { hasCode, SvcError } from '../../../errors.ts';

/** For `catch`: calls `instead` when no daemon runs; other errors are thrown again. */
export function whenNotRunning<T>(instead: () => T): (thrown: unknown) => T {
  return (thrown) => {
    if (hasCode(thrown, 'daemon_not_running')) return instead();
    throw thrown;
  };
}

export function noLog(): SvcError {
  return new SvcError('daemon_not_running', 'There is no event log yet: no daemon has run here.');
}
