import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type FleetNode, FleetOfNodes, settle } from './fleet-nodes.ts';

const test = suite('the model files of a fleet');
let fleet: FleetOfNodes;
test.before.each(() => {
  fleet = new FleetOfNodes();
});
test.after.each(() => fleet.close());

const stateOf = async ({ runtime }: FleetNode, id: string) => (await runtime.runs.get(id)).state;

for (const first of ['b', 'c'])
  test(`an answer goes on where its model file is, if ${first} looks first`, async () => {
    const a = await fleet.boot('a', 1, {}, ['small'], 'one');
    const { id } = await a.runtime.runs.start({ prompt: 'first', model: 'local/small' }, 'one');
    await settle();
    const others = { b: () => boot('b', 'two'), c: () => boot('c', 'one') };
    const boot = (name: string, file: string) => fleet.boot(name, 1, {}, ['small'], file);
    const nodes: Record<string, FleetNode> = {};
    for (const name of first === 'b' ? (['b', 'c'] as const) : (['c', 'b'] as const))
      nodes[name] = await others[name]();
    await fleet.kill(a);
    await fleet.pass(14_000);
    assert.equal([nodes.b?.provider.asked, nodes.c?.provider.asked], [[], ['first']]);
    await nodes.c?.provider.one();
    const shown = await nodes.b?.runtime.runs.get(id);
    assert.equal([shown?.state, shown?.output], ['completed', 'from afrom c']);
    const [asked] = nodes.c?.provider.port.asked ?? [];
    assert.equal(asked?.resume?.token_ids, [1], 'behind its recorded tokens');
    assert.is(nodes.b?.kernel.instance(id as 'run_'), undefined);
  });

test('an answer waits while the node with its model file is full, and no longer', async () => {
  const boot = (name: string, file: string) => fleet.boot(name, 1, {}, ['small'], file);
  const [a, b, c] = [await boot('a', 'one'), await boot('b', 'two'), await boot('c', 'one')];
  const input = { prompt: 'first', model: 'local/small' };
  const { id } = await a.runtime.runs.start(input, 'one');
  await c.runtime.runs.start({ ...input, prompt: 'busy' }, 'one');
  await settle();
  await fleet.kill(a);
  await fleet.pass(60_000);
  assert.is(await stateOf(b, id), 'streaming');
  await c.provider.one();
  assert.equal([b.provider.asked, c.provider.asked], [[], ['busy', 'first']]);
  await fleet.kill(c);
  await fleet.pass(12_000);
  assert.is(await stateOf(b, id), 'streaming', 'a node with the file may come back');
  await fleet.pass(12_000);
  const shown = await b.runtime.runs.get(id);
  assert.equal([shown.state, shown.error?.code], ['interrupted', 'model_changed']);
  assert.is(shown.output, 'from afrom c');
});

test('a run that begins again needs no model file, and one that is cancelled ends', async () => {
  const boot = (name: string, file: string) => fleet.boot(name, 2, {}, ['small'], file);
  const a = await boot('a', 'one');
  const input = { prompt: 'first', model: 'local/small' };
  const again = await a.runtime.runs.start({ ...input, recovery: 'restart' }, 'one');
  const held = await a.runtime.runs.start(input, 'one');
  await settle();
  const b = await boot('b', 'two');
  await fleet.kill(a);
  await fleet.pass(12_000);
  assert.is(b.provider.asked.length, 1);
  assert.is(await stateOf(b, held.id), 'streaming');
  assert.is((await b.runtime.runs.cancel(held.id, 'http')).state, 'cancelled');
  await b.provider.one();
  assert.is((await b.runtime.runs.get(again.id)).output, 'from b');
});

const UNLISTED = { prompt: 'first', model: 'local//models/new.gguf' };

test('a run of a model that no node lists goes on where its file can be read', async () => {
  const a = await fleet.boot('a', 1, {}, ['small'], 'one');
  const { id } = await a.runtime.runs.start(UNLISTED, 'one');
  await settle();
  const b = await fleet.boot('b', 1, {}, ['small']);
  await fleet.kill(a);
  await fleet.pass(30_000);
  assert.is(await stateOf(b, id), 'streaming');
  const why = async (node: FleetNode) =>
    (await node.runtime.history.whyRun(id)).explanation.at(-1) ?? '';
  assert.match(
    await why(b),
    / it waits for a node with the model \/models\/new.gguf and a free place, for 600 s at most$/,
  );
  const c = await fleet.boot('c', 1, {}, ['small'], 'one');
  await fleet.pass(2000);
  assert.equal([b.provider.asked, c.provider.asked], [[], ['first']]);
  assert.not.match(await why(b), /waits/);
  await c.provider.one();
  assert.is((await b.runtime.runs.get(id)).output, 'from afrom c');
});

test('a run that no node can go on with ends, says why, and keeps its text', async () => {
  const limits = { queue_ms: 60_000 };
  const a = await fleet.boot('a', 1, limits, ['small'], 'one');
  const { id } = await a.runtime.runs.start(UNLISTED, 'one');
  await settle();
  const b = await fleet.boot('b', 1, limits, ['small']);
  await fleet.kill(a);
  await fleet.pass(60_000);
  assert.is(await stateOf(b, id), 'streaming');
  await fleet.pass(20_000);
  const { state, error, output } = await b.runtime.runs.get(id);
  assert.equal([state, error?.code, output], ['interrupted', 'run_interrupted', 'from a']);
  assert.match(
    error?.message ?? '',
    /no node with the model \/models\/new.gguf resumed it in time/,
  );
  assert.is(b.scheduler.unsettled, 0);
});

test.run();
