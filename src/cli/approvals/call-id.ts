import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';

/**
 * The id of a call. `last` is the waiting call: of several, a person says which. Throws
 * approval_unknown, usage.
 */
export async function callId(paths: Paths, written = ''): Promise<string> {
  if (written !== 'last') return written;
  const { approvals, older = 0 } = await askDaemon(paths, 'approval.list', { limit: SHOWN });
  const [only, ...more] = approvals;
  if (only === undefined)
    throw new SvcError('approval_unknown', 'No call of a tool waits for you.');
  if (more.length === 0) return only.id;
  const count = approvals.length + older;
  throw new SvcError('usage', `${count} calls wait for you, so "last" names none.`, {
    hint: `Name one: ${approvals.map(({ id }) => id).join(', ')}`,
  });
}

const SHOWN = 8;
