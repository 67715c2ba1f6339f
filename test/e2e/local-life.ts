import type { Test } from 'uvu';
import { type Home, makeHome } from '../helpers/svc.ts';
import { addModels } from '../torture/answers.ts';
import { type Life, serve } from '../torture/daemon.ts';

/** Gives each test a home with the two local models, and a daemon in it that is ready. */
export function withLocalModels(test: Test<{ home: Home; life: Life }>): void {
  test.before.each(async (context) => {
    context.home = makeHome({ SVC_ENGINE_THREADS: '1' });
    addModels(context.home);
    context.life = await serve(context.home);
  });
  test.after.each(async ({ home, life }) => {
    await life.stop(0);
    await home.close();
  });
}
