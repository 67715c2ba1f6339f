import type { Test } from 'uvu';
import type { PausedHome } from '../helpers/daemon.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { addModels } from '../torture/answers.ts';
import { enginePid, type Life, serve } from '../torture/daemon.ts';

/** Each life loads the model that most is asked of, not the built-in one before it. */
export const ENVIRONMENT = { SVC_ENGINE_THREADS: '1', SVC_MODEL: 'slow' };

/** Until an answer has begun: on a busy machine a model loads slowly. */
export const BEGIN = { within_ms: 120_000 };

/**
 * Gives the tests of a file one home, and each test a daemon in it that is ready: the one of the
 * test before, unless that ended it.
 */
export function withOneHome<H extends Home>(
  test: Test<{ home: H; life: Life }>,
  make: () => H | Promise<H>,
): void {
  test.before(async (context) => {
    context.home = await make();
    context.life = await serve(context.home);
  });
  test.before.each(async (context) => {
    // A command may have started another one.
    if (!(await answers(context.life))) context.life = await serve(context.home);
  });
  test.after(async ({ home, life }) => {
    await life.stop(0);
    await home.close();
  });
}

async function answers(life: Life): Promise<boolean> {
  const health = await life.ask((client) => client.call('health')).catch(() => null);
  return health?.ready === true;
}

/** Answers all that the paused server is asked, until no run is left. */
export async function answerAll({ home, life }: { home: PausedHome; life: Life }): Promise<void> {
  await waitFor('all are answered', async () => {
    home.server.finish();
    const { active, queued } = (await life.ask((client) => client.call('status'))).runs;
    return active + queued === 0 && home.server.streams.size === 0;
  });
}

/** As `withOneHome`, with the two local models. */
export function withLocalModels(
  test: Test<{ home: Home; life: Life }>,
  env: NodeJS.ProcessEnv = {},
): void {
  withOneHome(test, () => {
    const home = makeHome({ ...ENVIRONMENT, ...env });
    addModels(home);
    return home;
  });
}

/** Does something while the engine is stopped, so that no answer ends meanwhile. */
export async function whileEngineIsStopped<T>(life: Life, work: () => Promise<T>): Promise<T> {
  const pid = await enginePid(life);
  process.kill(pid, 'SIGSTOP');
  try {
    return await work();
  } finally {
    signalIfThere(pid, 'SIGCONT');
  }
}

/** The pid may be that of an engine which has ended, with its daemon or before it saw that. */
export function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
