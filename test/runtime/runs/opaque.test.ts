import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { recordText } from '../../../src/cli/runs/show.ts';
import type { RunInput } from '../../../src/contract/contract.ts';
import { parseRunInput, textBytes } from '../../../src/contract/inputs.ts';
import type { SvcError } from '../../../src/errors.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { whyRun } from '../../../src/observability/history/why.ts';
import { settled } from '../../helpers/calling-model.ts';
import { bootOpaque } from '../../helpers/opaque-upstreams.ts';
import { finish, output, ScriptedProvider } from '../../helpers/scripted-provider.ts';

/** What only one provider can read, over the turns and targets of runs. */

type World = Awaited<ReturnType<typeof bootOpaque>>;

async function ask({ runtime, daemon }: World, input: Partial<RunInput>) {
  const { id } = await runtime.runs.start(input as RunInput, 'test');
  await settled(daemon.kernel, id);
  return runtime.runs.get(id);
}

const thought = (n: number) => [
  { type: 'thinking', thinking: n === 1 ? 'Hm.' : 'Ah.', signature: `sig-${n}` },
];

test('the next turn of a conversation returns the thoughts of the last one, to their author alone', async () => {
  const other = new ScriptedProvider('other', () => [output('fine', 1), finish()]);
  const world = await bootOpaque('thoughts', { other });
  const { sent, close } = world;
  try {
    const first = await ask(world, { model: 'lan/m', prompt: 'one' });
    const next = { conversation: first.id };
    const second = await ask(world, { ...next, prompt: 'two' });
    assert.equal(second.opaque_parts, 2, 'that of the first turn, and its own');
    const third = await ask(world, { ...next, prompt: 'three' });
    const said = [{ type: 'text', text: 'done' }];
    assert.equal(
      sent().map(({ messages }) =>
        messages
          .filter(({ role }: { role: string }) => role === 'assistant')
          .map(({ content }: { content: object[] }) => content),
      ),
      [[], [[...thought(1), ...said]], [said, [...thought(1), ...said]]],
    );
    const away = await ask(world, { ...next, prompt: 'four', model: 'other/x' });
    assert.equal([third.opaque_left_out, away.opaque_left_out], [undefined, 1]);
    const { messages = [] } = other.asked[0]?.request ?? {};
    assert.not.match(JSON.stringify(messages), 'sig-1');
    assert.not.match(JSON.stringify(messages), 'Hm.');
  } finally {
    await close();
  }
});

test('a run that goes on with another target leaves out what was of the first one, and says so', async () => {
  const other = new ScriptedProvider('other', () => [output('fine', 1), finish()]);
  const world = await bootOpaque('anthropic', { other, wanted: 'no such text' });
  try {
    const tool_servers = ['files'];
    const run = await ask(world, { model: ['lan/m', 'other/x'], prompt: 'go', tool_servers });
    assert.equal([run.state, run.provider, run.output], ['completed', 'other', 'fine']);
    assert.equal([run.opaque_parts, run.opaque_left_out], [undefined, 3]);
    const [, turn] = other.asked[0]?.request.messages ?? [];
    assert.equal(
      turn?.content.map((part) => ({ ...part })),
      [{ type: 'tool_call', id: 'toolu_1', name: 'files__read', arguments: '{"n":1}' }],
    );
    const why = await whyRun(world.daemon.store, run.id);
    assert.ok(
      why?.explanation.some((line) =>
        line.endsWith(
          ' other/x does not get 3 parts of the conversation, such as a signature, that only ' +
            'another provider or model can read',
        ),
      ),
      why?.explanation.join('\n'),
    );
    const text = recordText(run);
    assert.match(text, /^ *opaque parts +3 left out, which another provider or model wrote$/m);
    assert.match(text, '(signature, 5 B, for only lan/m)');
    assert.not.match(text, 'sig-1');
  } finally {
    await world.close();
  }
});

test('a run whose provider gets all of it back shows how much, and not what', async () => {
  const world = await bootOpaque('anthropic');
  try {
    const run = await ask(world, { model: 'lan/m', prompt: 'go', tool_servers: ['files'] });
    assert.match(recordText(run), /^ *opaque parts +3, which its provider gets back$/m);
    assert.not.match(recordText(run), 'red-1');
    const why = await whyRun(world.daemon.store, run.id);
    assert.not.match(why?.explanation.join('\n') ?? '', 'does not get');
  } finally {
    await world.close();
  }
});

test('what is too large to send back is an error with a name', () => {
  const opaque = { form: 'signature', data: 's'.repeat(1000) };
  const content = [{ type: 'reasoning', text: '', opaque }];
  const messages = [{ role: 'assistant', content }];
  const limits = (prompt_bytes: number) => ({ ...defaultLimits, prompt_bytes });
  // It counts with the names of its fields, as each text of a request does.
  const most = textBytes({ messages });
  assert.ok(most > 1000 && most < 1200, String(most));
  assert.equal(parseRunInput({ messages }, limits(most)).messages, messages);
  try {
    parseRunInput({ messages }, limits(most - 1));
    assert.unreachable();
  } catch (error) {
    assert.is((error as SvcError).code, 'prompt_too_large');
  }
});

test.run();
