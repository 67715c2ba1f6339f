import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Attack } from '../attack.ts';
import { askInSilence, upgradeRequest } from '../followers.ts';

const MIB = 1024 * 1024;
const SIZES = { short: { bytes: 8 * MIB, clients: 40 }, long: { bytes: 15 * MIB, clients: 90 } };

/**
 * A tail is sent as it is read, some at a time: its length and its readers cost a block each. All
 * tails at once would be 320 MiB.
 */
export const attack: Attack = {
  summary: 'clients ask for a tail of the whole log and read nothing',
  env: () => ({ SVC_LIMIT_HEARTBEAT_MS: '1000', SVC_LIMIT_LOG_FILE_BYTES: String(64 * MIB) }),
  memory_mib: { short: 160, long: 300 },
  async run(victim, scale) {
    const { bytes, clients } = SIZES[scale];
    const { logs } = victim.home.paths;
    mkdirSync(logs, { recursive: true });
    const line = `${JSON.stringify({ level: 'info', time: new Date(0).toISOString(), msg: 'x'.repeat(600) })}\n`;
    for (const index of scale === 'short' ? [1] : [1, 2, 3, 4])
      appendFileSync(join(logs, `svc.${index}.log`), line.repeat(Math.ceil(bytes / line.length)));
    const silent = await askInSilence(victim, clients, () =>
      upgradeRequest(victim, '/v1/logs?tail=100000'),
    );
    for (let times = 0; !(await isServed(victim.url, victim.bearer)); times += 1) {
      if (times === TIMES_MAX) throw new Error('A client that reads was not served.');
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    silent.end();
  },
};

const TIMES_MAX = 150;

/** Whether a client that reads gets a short tail, which takes a place among the tails. */
async function isServed(
  url: string,
  { authorization = '' }: Record<string, string>,
): Promise<boolean> {
  const { WebSocket } = await import('ws');
  const socket = new WebSocket(`${url.replace('http:', 'ws:')}/v1/logs?tail=10`, {
    headers: { authorization },
  });
  socket.on('error', () => {});
  return (await new Promise<number>((resolve) => socket.once('close', resolve))) === 1000;
}
