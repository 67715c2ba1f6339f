import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Home } from '../helpers/svc.ts';
import { checkSame, followAnswer, once } from '../torture/answers.ts';
import { enginePid, type Life, serve } from '../torture/daemon.ts';
import { ask } from '../torture/http.ts';
import { withLocalModels } from './local-life.ts';

/**
 * A local answer whose daemon or engine is killed with SIGKILL: the whole of it is as if nothing
 * had happened.
 */
const test = suite<{ home: Home; life: Life }>('a local answer that is cut off');

withLocalModels(test);

const CASES = [
  { model: 'slow', temperature: 0, seed: 1, max_tokens: 240 },
  { model: 'slow', temperature: 0.8, seed: 2, max_tokens: 240 },
  { model: 'quick', temperature: 1.5, seed: 3, max_tokens: 500 },
] as const;
const LONG = { prompt: 'Tell me all of it: 日本語 🙂' };

/**
 * Where the answer is cut: tokens that were heard by then. Far from its end: a busy machine hears
 * them late.
 */
const CUTS = [1, 90];

/**
 * Kills the daemon once so many tokens were heard, and starts it again. Pieces come together on a
 * busy machine: an answer that was complete by then is asked for again.
 */
async function cutOff(
  context: { home: Home; life: Life },
  request: Record<string, unknown>,
  cut: number,
) {
  for (let tries = 1; ; tries += 1) {
    const before = await followAnswer(
      context.home,
      request,
      (count) => count >= cut && context.life.child.kill('SIGKILL'),
    );
    await context.life.ended;
    context.life = await serve(context.home);
    const after = await followAnswer(context.home, before.id);
    if (after.events.includes('run.recovered') || tries === TRIES_MAX) return { before, after };
  }
}

for (const sampled of CASES) {
  test(`by the death of the daemon, is the same after its next start: ${sampled.model} at ${sampled.temperature}`, async (context) => {
    const whole = await followAnswer(context.home, { ...LONG, ...sampled });
    assert.is(whole.token_ids.length, sampled.max_tokens);
    for (const cut of sampled.temperature === 0.8 ? CUTS : CUTS.slice(1)) {
      const { before, after } = await cutOff(context, { ...LONG, ...sampled }, cut);
      assert.ok(after.text.startsWith(before.text), 'nothing that was seen is taken back');
      checkSame(after, whole);
      assert.is(after.events.filter((event) => event === 'run.recovered').length, 1);
    }
  });
}

test('by the death of the engine, goes on while the daemon never stops', async ({ home, life }) => {
  for (const sampled of CASES) {
    const whole = await followAnswer(home, { ...LONG, ...sampled });
    for (const cut of CUTS.slice(1)) {
      let cutOff: Followed | null = null;
      const seen = await readyWhile(home, async () => {
        for (let tries = 0; tries < TRIES_MAX && !isSuspended(cutOff); tries += 1) {
          const engine = await enginePid(life);
          cutOff = await followAnswer(
            home,
            { ...LONG, ...sampled },
            once(cut, () => killIfThere(engine)),
          );
          checkSame(cutOff, whole);
        }
      });
      assert.equal(seen, [200], `it was ready all the time: ${life.printed().slice(-2000)}`);
      assert.ok(isSuspended(cutOff));
    }
  }
  const status = await life.ask((client) => client.call('status'));
  assert.is(status.pid, life.pid);
});

type Followed = Awaited<ReturnType<typeof followAnswer>>;

/** A busy machine may hear the cut after the engine has computed the whole answer. */
const TRIES_MAX = 10;

function isSuspended(heard: Followed | null): boolean {
  return heard?.events.includes('run.suspended') === true;
}

/** The pid may be that of an engine whose end the daemon has not seen yet. */
function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Polls /readyz while the work lasts. Returns the answers and the errors of connections. */
async function readyWhile(home: Home, work: () => Promise<void>): Promise<(number | string)[]> {
  const seen = new Set<number | string>();
  let over = false;
  const status = async () => (await ask(home, '/readyz')).status;
  const asking = (async () => {
    while (!over) seen.add(await status().catch(({ message }: Error) => message));
  })();
  try {
    await work();
  } finally {
    over = true;
    await asking;
  }
  return [...seen];
}

test.run();
