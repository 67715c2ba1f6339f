import type { Test } from 'uvu';
import { type Home, makeHome } from '../helpers/svc.ts';
import { addModels, type Followed, followAnswer } from '../torture/answers.ts';
import { enginePid, type Life, serve } from '../torture/daemon.ts';

/** Each life loads the model that most is asked of, not the built-in one before it. */
export const ENVIRONMENT = { SVC_ENGINE_THREADS: '1', SVC_MODEL: 'slow' };

/** Until an answer has begun: on a busy machine a model loads slowly. */
export const BEGIN = { within_ms: 120_000 };

/** Gives each test a home with the two local models, and a daemon in it that is ready. */
export function withLocalModels(test: Test<{ home: Home; life: Life }>): void {
  test.before.each(async (context) => {
    context.home = makeHome(ENVIRONMENT);
    addModels(context.home);
    context.life = await serve(context.home);
  });
  test.after.each(async ({ home, life }) => {
    await life.stop(0);
    await home.close();
  });
}

/** The answer to a request in an undisturbed home. */
export async function hearUndisturbed(request: Record<string, unknown>): Promise<Followed> {
  const home = makeHome(ENVIRONMENT);
  try {
    addModels(home);
    const life = await serve(home);
    const heard = await followAnswer(home, request);
    await life.stop(0);
    return heard;
  } finally {
    await home.close();
  }
}

/** Does something while the engine is stopped, so that no answer ends meanwhile. */
export async function whileEngineIsStopped<T>(life: Life, work: () => Promise<T>): Promise<T> {
  const pid = await enginePid(life);
  process.kill(pid, 'SIGSTOP');
  try {
    return await work();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}
