import { connect } from '../../transport/control/client.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { ANSWER_MS, type Answer, type Source } from './source.ts';

export const socket: Source = {
  async ask(address) {
    const client = await connect(address, { timeout_ms: ANSWER_MS });
    try {
      return answer(await client.call('health', {}, { timeout_ms: ANSWER_MS }));
    } finally {
      client.close();
    }
  },

  async *watch(address, signal) {
    const client = await connect(address, { timeout_ms: ANSWER_MS });
    try {
      for await (const health of client.stream('health.watch', {}, { signal }))
        yield answer(health);
    } finally {
      client.close();
    }
  },
};

function answer({
  live,
  ready,
  status,
  state,
  state_path,
  since,
  reason,
  output,
  version,
}: Results['health']): Answer {
  return { live, ready, status, state, state_path, since, reason, output: output ?? null, version };
}
