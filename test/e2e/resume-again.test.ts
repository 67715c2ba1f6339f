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

test('by daemon and engine in turn, three times in one answer, is still the same', async (context) => {
  // Each cut is far from the one before and from the end: what is heard late on a busy machine is
  // heard in time.
  const request = { ...LONG, ...SAMPLED, max_tokens: 800 };
  const whole = await followAnswer(context.home, request);
  const first = await followAnswer(
    context.home,
    request,
    once(50, () => context.life.child.kill('SIGKILL')),
  );
  await context.life.ended;
  context.life = await serve(context.home);
  let killed = false;
  const second = await followAnswer(context.home, first.id, (count) => {
    if (count < 180 || killed) return;
    killed = true;
    void enginePid(context.life).then((pid) => process.kill(pid, 'SIGKILL'));
  });
  if (second.record === null) throw new Error(`the daemon was lost: ${second.broken}`);
  checkSame(second, whole);
  assert.ok(second.events.includes('run.suspended'));

  const third = await followAnswer(
    context.home,
    request,
    once(60, () => context.life.child.kill('SIGKILL')),
  );
  for (const cut of [180, 300]) {
    await context.life.ended;
    context.life = await serve(context.home);
    await followAnswer(
      context.home,
      third.id,
      once(cut, () => context.life.child.kill('SIGKILL')),
    );
  }
  await context.life.ended;
  context.life = await serve(context.home);
  const last = await followAnswer(context.home, third.id);
  checkSame(last, whole);
  assert.is(last.events.filter((event) => event === 'run.started').length, 4);
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
  const [restarted, ended] = [
    await followAnswer(context.home, again.id),
    await followAnswer(context.home, over.id),
  ];
  checkSame(restarted, whole);
  assert.equal(restarted.record?.attempts, 2);
  assert.is(ended.record?.state, 'interrupted');
  assert.is(ended.record?.error?.code, 'run_interrupted');
  assert.ok(
    ended.text.length > 0 && ended.text.startsWith(over.text) && whole.text.startsWith(ended.text),
  );
  assert.is(ended.record?.output, ended.text);
});

test.run();
