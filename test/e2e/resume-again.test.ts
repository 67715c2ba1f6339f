import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Home } from '../helpers/svc.ts';
import { checkSame, type Followed, followAnswer, once } from '../torture/answers.ts';
import { enginePid, type Life, serve } from '../torture/daemon.ts';
import { withLocalModels } from './local-life.ts';

/**
 * As resume.test.ts: several breaks in one answer, several answers at one time, and the other
 * policies.
 */
const test = suite<{ home: Home; life: Life }>('local answers that are cut off');

withLocalModels(test);

const SAMPLED = { model: 'slow', temperature: 0.8, seed: 2 };
const LONG = { prompt: 'Tell me all of it: 日本語 🙂', max_tokens: 160 };

/**
 * Asks and cuts until every cut came before the end of the answer: a busy machine may hear its
 * tokens when it is complete. Each answer is looked at.
 */
async function untilInTime(part: () => Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < TURNS_MAX; turn += 1) if (await part()) return;
  throw new Error(`no answer was cut in time in ${TURNS_MAX} turns`);
}
const TURNS_MAX = 8;

test('by daemon and engine in turn, three times in one answer, is still the same', async (context) => {
  // Each cut is far from the one before and from the end.
  const request = { ...LONG, ...SAMPLED, max_tokens: 800 };
  const whole = await followAnswer(context.home, request);
  const killAt = (cut: number) => once(cut, () => context.life.child.kill('SIGKILL'));
  const reborn = async () => {
    await context.life.ended;
    context.life = await serve(context.home);
  };
  await untilInTime(async () => {
    const first = await followAnswer(context.home, request, killAt(50));
    await reborn();
    let isKilled = Promise.resolve(true);
    const kill = () => {
      isKilled = enginePid(context.life).then((pid) => process.kill(pid, 'SIGKILL'));
    };
    const second = await followAnswer(context.home, first.id, once(180, kill));
    await isKilled;
    if (second.record === null) throw new Error(`the daemon was lost: ${second.broken}`);
    checkSame(second, whole);
    return second.events.includes('run.suspended');
  });
  await untilInTime(async () => {
    const { id } = await followAnswer(context.home, request, killAt(60));
    for (const cut of [180, 300]) {
      await reborn();
      await followAnswer(context.home, id, killAt(cut));
    }
    await reborn();
    const last = await followAnswer(context.home, id);
    checkSame(last, whole);
    return last.events.filter((event) => event === 'run.started').length === 4;
  });
});

test('several at one time are each the same, and wait in their order', async (context) => {
  const requests = [1, 2, 3, 4].map((seed) => ({
    ...LONG,
    model: 'slow',
    temperature: 0.8,
    seed,
    prompt: `${LONG.prompt} ${seed}`,
  }));
  const whole = await Promise.all(requests.map((request) => followAnswer(context.home, request)));
  const counts = requests.map(() => 0);
  const cut = await Promise.all(
    requests.map((request, index) =>
      followAnswer(context.home, request, (count) => {
        counts[index] = count;
        if (counts.every((heard) => heard > 0) && (counts[0] ?? 0) >= 30)
          context.life.child.kill('SIGKILL');
      }),
    ),
  );
  await context.life.ended;
  context.life = await serve(context.home);
  const after = await Promise.all(cut.map(({ id }) => followAnswer(context.home, id)));
  for (const [index, one] of after.entries()) checkSame(one, whole[index] as Followed);
  const started = after.map(({ record }) => record?.started_at ?? '');
  assert.equal(started, [...started].sort());
});

test('is asked again from its beginning with recovery=restart, and ends with its text with recovery=end', async (context) => {
  const request = { ...LONG, ...SAMPLED, max_tokens: 600 };
  const whole = await followAnswer(context.home, request);
  await untilInTime(async () => {
    const [again, over] = await Promise.all([
      followAnswer(context.home, { ...request, recovery: 'restart' }),
      followAnswer(
        context.home,
        { ...request, recovery: 'end' },
        once(60, () => context.life.child.kill('SIGKILL')),
      ),
    ]);
    await context.life.ended;
    context.life = await serve(context.home);
    const restarted = await followAnswer(context.home, again.id);
    const ended = await followAnswer(context.home, over.id);
    checkSame(restarted, whole);
    if (restarted.record?.attempts === 1 || ended.record?.state === 'completed') return false;
    assert.is(restarted.record?.attempts, 2);
    assert.is(ended.record?.state, 'interrupted');
    assert.is(ended.record?.error?.code, 'run_interrupted');
    assert.ok(
      ended.text.length > 0 &&
        ended.text.startsWith(over.text) &&
        whole.text.startsWith(ended.text),
    );
    assert.is(ended.record?.output, ended.text);
    return true;
  });
});

test.run();
