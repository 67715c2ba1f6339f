import * as assert from 'uvu/assert';
import { readRuntimeFile } from '../../src/home/runtime-file.ts';
import { makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';

/**
 * A life of the built daemon on this Node: it starts, answers, is killed, recovers and stops.
 * Rejects with the first thing that is wrong.
 */
export async function live(node: string, version: string): Promise<void> {
  const home = makeHome({ SVC_MODEL: 'svc-mini' });
  const ok = async (args: readonly string[], code = 0) => {
    const outcome = await home.svc(args, { node });
    const { signal, stdout, stderr } = outcome;
    assert.is(
      outcome.code,
      code,
      `svc ${args.join(' ')}: exit ${signal ?? outcome.code}\n${stdout}${stderr}`,
    );
    return stdout;
  };
  try {
    const { pid } = JSON.parse(await ok(['start', '--json']));
    const file = readRuntimeFile(home.paths.runtime);
    assert.is(file.kind === 'present' && file.file.node, `v${version}`);
    // Its model has to be loaded first, so the run has not ended by then.
    const id = (await ok(['run', '--detach', 'How do I stop the daemon?'])).trim();
    process.kill(pid, 'SIGKILL');
    await waitFor('the daemon is gone', async () => {
      const { stdout } = await home.svc(['status', '--json'], { node });
      return JSON.parse(stdout).state === 'crashed';
    });
    await ok(['start']);
    await ok(['runs', 'attach', id]);
    assert.is(JSON.parse(await ok(['runs', 'show', id, '--json'])).state, 'completed');
    const status = JSON.parse(await ok(['status', '--json']));
    assert.is(status.last_boot.ending, 'killed');
    assert.match(await ok(['run', 'How do I see the last log lines?']), 'svc logs');
    // The engine has compiled code and a tested build by now, and starts in another way.
    await ok(['restart']);
    assert.match(await ok(['run', 'How do I see the last log lines?']), 'svc logs');
    await ok(['doctor']);
    await ok(['stop']);
    await ok(['status'], 3);
  } finally {
    await home.close();
  }
}
