import { request } from 'node:http';
import type { Attack, Victim } from '../attack.ts';

/** Without a token no body is read: the refusal comes first, and what follows is thrown away. */
export const attack: Attack = {
  summary: 'clients without a token send large bodies to every route that takes one',
  memory_mib: { short: 60, long: 60 },
  async run(victim, scale) {
    const bytes = scale === 'short' ? 4 * MIB : 16 * MIB;
    const answers = await Promise.all(
      Array.from({ length: scale === 'short' ? 8 : 32 }, (_, index) =>
        send(victim, PATHS[index % PATHS.length] ?? '', bytes),
      ),
    );
    const accepted = answers.filter((status) => status === 200 || status === 202);
    if (accepted.length > 0) throw new Error(`${accepted.length} bodies were taken.`);
  },
};

const MIB = 1024 * 1024;
const PATHS = ['/v1/runs', '/v1/runtime/events', '/v1/session', '/v1/runs/run_x/cancel'];

/** The status of the answer; null when the connection was cut instead. */
function send({ port }: Victim, path: string, bytes: number): Promise<number | null> {
  return new Promise((resolve) => {
    const headers = { 'content-type': 'application/json', 'content-length': bytes };
    const sent = request(
      { host: '127.0.0.1', port, path, method: 'POST', headers, agent: false, timeout: 20_000 },
      (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
        sent.destroy();
      },
    );
    sent.once('timeout', () => sent.destroy());
    sent.once('error', () => resolve(null));
    sent.end(Buffer.alloc(bytes, ' '));
  });
}
