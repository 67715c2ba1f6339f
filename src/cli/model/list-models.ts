import type { Paths } from '../../home/paths.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';

/** The models of all providers. Each provider has its own, shorter limit. */
export function listModels(paths: Paths): Promise<Results['model.list']> {
  return askDaemon(paths, 'model.list', {}, { timeout_ms: LIST_MS });
}

const LIST_MS = 30_000;
