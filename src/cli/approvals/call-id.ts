import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { askDaemon } from '../connect/ask-daemon.ts';

/**
 * The id of a call. `last` is the one that waits: of several, a person says which. Throws
 * approval_unknown, usage.
 */
export async function callId(paths: Paths, written = ''): Promise<string> {
  if (written !== 'last') return written;
  const { approvals } = await askDaemon(paths, 'approval.list', {});
  const [only, ...more] = approvals;
  if (only === undefined)
    throw new SvcError('approval_unknown', 'No call of a tool waits for you.');
  if (more.length === 0) return only.id;
  throw new SvcError('usage', `${approvals.length} calls wait for you, so "last" names none.`, {
    hint: `Name one: ${approvals
      .map(({ id }) => id)
      .slice(0, SHOWN)
      .join(', ')}`,
  });
}

const SHOWN = 8;
