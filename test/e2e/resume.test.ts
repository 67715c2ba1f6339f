import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { addModels, type Heard, hear } from '../torture/answers.ts';
import { enginePid, type Life, serve } from '../torture/daemon.ts';
import { ask } from '../torture/http.ts';

/** A local answer whose daemon or engine is killed with SIGKILL: the whole of it is as if nothing had happened. */
const test = suite<{ home: Home; life: Life }>('a local answer that is cut off');

test.before.each(async (context) => {
  context.home = makeHome({ SVC_ENGINE_THREADS: '1' });
  addModels(context.home);
  context.life = await serve(context.home);
});
test.after.each(async ({ home, life }) => {
  await life.stop(0);
  await home.close();
});

const CASES = [
  { model: 'slow', temperature: 0, seed: 1 },
  { model: 'slow', temperature: 0.8, seed: 2 },
  { model: 'quick', temperature: 1.5, seed: 3 },
] as const;
const LONG = { prompt: 'Tell me all of it: 日本語 🙂', max_tokens: 160 };

/** Where the answer is cut: tokens that were heard by then. */
const CUTS = [1, 90];

for (const sampled of CASES) {
  test(`by the death of the daemon, is the same after its next start: ${sampled.model} at ${sampled.temperature}`, async (context) => {
    const whole = await hear(context.home, { ...LONG, ...sampled });
    assert.is(whole.token_ids.length, LONG.max_tokens);
    for (const cut of CUTS) {
      const before = await hear(context.home, { ...LONG, ...sampled }, (count) => count >= cut && context.life.child.kill('SIGKILL'));
      await context.life.ended;
      context.life = await serve(context.home);
      const after = await hear(context.home, before.id);
      assert.ok(after.text.startsWith(before.text), 'nothing that was seen is taken back');
      checkSame(after, whole);
      assert.equal(after.facts.filter((fact) => fact === 'run.recovered').length, before.record === null ? 1 : 0);
    }
  });
}

test('by the death of the engine, goes on while the daemon never stops', async ({ home, life }) => {
  for (const sampled of CASES) {
    const whole = await hear(home, { ...LONG, ...sampled });
    for (const cut of CUTS.slice(1)) {
      const engine = await enginePid(life);
      const ready = watchReady(home);
      const cutOff = await hear(
        home,
        { ...LONG, ...sampled },
        once(cut, () => process.kill(engine, 'SIGKILL')),
      );
      checkSame(cutOff, whole);
      assert.equal(await ready.stop(), [200], 'it was ready all the time');
      assert.ok(cutOff.facts.includes('run.suspended') || cutOff.record?.attempts === 1);
    }
  }
  const status = await life.ask((client) => client.call('status'));
  assert.is(status.pid, life.pid);
});

test('by daemon and engine in turn, three times in one answer, is still the same', async (context) => {
  const request = { ...LONG, ...CASES[1], max_tokens: 300 };
  const whole = await hear(context.home, request);
  const first = await hear(
    context.home,
    request,
    once(50, () => context.life.child.kill('SIGKILL')),
  );
  await context.life.ended;
  context.life = await serve(context.home);
  let killed = false;
  const second = await hear(context.home, first.id, (count) => {
    if (count < 130 || killed) return;
    killed = true;
    void enginePid(context.life).then((pid) => process.kill(pid, 'SIGKILL'));
  });
  if (second.record === null) throw new Error(`the daemon was lost: ${second.broken}`);
  checkSame(second, whole);

  const third = await hear(
    context.home,
    request,
    once(60, () => context.life.child.kill('SIGKILL')),
  );
  for (const cut of [140, 220]) {
    await context.life.ended;
    context.life = await serve(context.home);
    await hear(
      context.home,
      third.id,
      once(cut, () => context.life.child.kill('SIGKILL')),
    );
  }
  await context.life.ended;
  context.life = await serve(context.home);
  const last = await hear(context.home, third.id);
  checkSame(last, whole);
  assert.is(last.facts.filter((fact) => fact === 'run.started').length, 4);
});

test('several at one time are each the same, and wait in their order', async (context) => {
  const requests = [1, 2, 3, 4, 5].map((seed) => ({ ...LONG, model: 'slow', temperature: 0.8, seed, prompt: `${LONG.prompt} ${seed}` }));
  const whole = await Promise.all(requests.map((request) => hear(context.home, request)));
  const cut = await Promise.all(
    requests.map((request, index) =>
      hear(
        context.home,
        request,
        once(30, () => index === 0 && context.life.child.kill('SIGKILL')),
      ),
    ),
  );
  await context.life.ended;
  context.life = await serve(context.home);
  const after = await Promise.all(cut.map(({ id }) => hear(context.home, id)));
  for (const [index, one] of after.entries()) checkSame(one, whole[index] as Heard);
  const started = after.map(({ record }) => record?.started_at ?? '');
  assert.equal(started, [...started].sort());
});

test('is asked again from its beginning with recovery=restart, and ends with its text with recovery=end', async (context) => {
  const request = { ...LONG, ...CASES[1] };
  const whole = await hear(context.home, request);
  const [again, over] = await Promise.all([
    hear(context.home, { ...request, recovery: 'restart' }),
    hear(
      context.home,
      { ...request, recovery: 'end' },
      once(60, () => context.life.child.kill('SIGKILL')),
    ),
  ]);
  await context.life.ended;
  context.life = await serve(context.home);
  const [restarted, ended] = [await hear(context.home, again.id), await hear(context.home, over.id)];
  checkSame(restarted, whole);
  assert.equal(restarted.record?.attempts, 2);
  assert.is(ended.record?.state, 'interrupted');
  assert.is(ended.record?.error?.code, 'run_interrupted');
  assert.ok(ended.text.length > 0 && ended.text.startsWith(over.text) && whole.text.startsWith(ended.text));
  assert.is(ended.record?.output, ended.text);
});

function once(cut: number, act: () => unknown): (count: number) => void {
  let done = false;
  return (count) => {
    if (count < cut || done) return;
    done = true;
    act();
  };
}

function checkSame(heard: Heard, whole: Heard): void {
  assert.is(heard.record?.state, 'completed', heard.broken ?? JSON.stringify(heard.record?.error));
  assert.equal(heard.token_ids, whole.token_ids);
  assert.is(heard.text, whole.text);
  assert.is(heard.record?.output, whole.text);
  assert.equal(heard.record?.usage, whole.record?.usage);
  assert.is(heard.facts.filter((fact) => TERMINAL.test(fact)).length, 1);
}

const TERMINAL = /^run\.(completed|failed|cancelled|interrupted|timed_out)$/;

/** Asks /readyz for as long as it is not stopped; tells which answers there were. */
function watchReady(home: Home): { stop(): Promise<number[]> } {
  const seen = new Set<number>();
  let over = false;
  const asking = (async () => {
    while (!over) seen.add((await ask(home, '/readyz')).status);
  })();
  return {
    stop: async () => {
      over = true;
      await asking;
      return [...seen];
    },
  };
}

test.run();
