import { SvcError } from '../../errors.ts';
import { foldEvent } from '../../kernel/fold.ts';
import type { Instance } from '../../kernel/instance.ts';
import type { RunRow, StoredEvent } from '../../kernel/store/port.ts';
import type { RowFolder } from '../../kernel/store/transfer/import.ts';
import { isRun } from '../../kernel/stream.ts';
import { projectEvent } from '../../runtime/runs/record.ts';

/**
 * Folds the rows of runs from a log that passes by, in its order. It owns the runs that have not
 * ended yet: a daemon bounds their number.
 */
export function foldRows(): RowFolder {
  const open = new Map<string, { instance: Instance; row: RunRow }>();
  return {
    next(event) {
      const { stream } = event;
      if (!isRun(stream)) return null;
      const before = open.get(stream);
      const instance = fold(before?.instance, event);
      const row = projectEvent(event, instance.snapshot) ?? before?.row;
      if (row === undefined) throw foldError(event);
      if (row.finished) open.delete(stream);
      else open.set(stream, { instance, row });
      return row.finished ? row : null;
    },
    unfinished: () => [...open.values()].map(({ row }) => row),
  };
}

function fold(before: Instance | undefined, event: StoredEvent): Instance {
  try {
    return foldEvent(before, event);
  } catch (cause) {
    throw foldError(event, cause);
  }
}

function foldError({ stream, type }: StoredEvent, cause?: unknown): SvcError {
  return new SvcError('import_invalid', `The run ${stream} cannot be folded at its ${type}.`, {
    cause,
  });
}
