import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { CALLS } from '../../src/answer-forms/calls.ts';
import { SvcError } from '../../src/errors.ts';
import {
  findKnown,
  isShortName,
  knownForms,
  knownModels,
  nameOfKnown,
  searchKnown,
} from '../../src/models/catalogue.ts';
import { readModelName } from '../../src/models/file-name.ts';
import { parseReference, shownReference } from '../../src/models/hub/reference.ts';
import { fitOf } from '../../src/models/memory-needs.ts';
import { readTask } from '../../src/models/task.ts';
import { FILE, MODEL, pulls } from '../helpers/pulls.ts';

/** Short names of models. The hub checks the references themselves, at a pull. */

const HUB = new URL('https://huggingface.co');
const env = { HF_ENDPOINT: HUB.href };
const ask = (reference: string, name: string | null = null) =>
  readTask({ reference, name, sha256: null }, env);

test('each row is a reference to one file or one quantization, with a name that the folder takes', () => {
  assert.ok(knownModels.length >= 20);
  assert.is(new Set(knownModels.map(({ name }) => name)).size, knownModels.length);
  for (const known of knownModels) {
    const { name, reference, size_bytes, licence, good_for } = known;
    const parsed = parseReference(reference, HUB);
    assert.ok(parsed.kind === 'hub' && (parsed.path ?? parsed.quant) !== null, name);
    assert.is(shownReference(parsed), reference);
    assert.match(name, /^[a-z0-9][a-z0-9.-]*:[a-z0-9.]+$/);
    assert.ok(isShortName(name), name);
    assert.ok(size_bytes > 10_000_000 && size_bytes < 100_000_000_000, name);
    assert.ok(licence !== '' && good_for !== '', name);
    const file = nameOfKnown(known);
    assert.is(readModelName(file), file);
  }
});

test('a model that is sold with tools calls them in a form that the engine reads', () => {
  for (const form of knownForms)
    assert.ok(
      CALLS.some(({ families }) => families.startsWith(form)),
      form,
    );
  for (const { name, good_for, tools } of knownModels)
    assert.ok(tools || !/\btools\b/.test(good_for), name);
  const toolsOf = (name: string) => findKnown(name)?.tools;
  const others = ['gemma4', 'qwen3.5', 'devstral', 'glm-4.7-flash'];
  assert.ok(['gpt-oss', 'granite3.3', ...others].every(toolsOf));
  assert.equal(['gemma3', 'phi4'].map(toolsOf), [false, false]);
});

test('a pull of a short name is a pull of its reference, and the model has the short name', () => {
  const { reference, name, shown } = ask('qwen3:0.6b');
  assert.is(shown, 'hf:Qwen/Qwen3-0.6B-GGUF:Q8_0');
  assert.is(name, 'qwen3-0.6b');
  assert.is(reference.kind, 'hub');
  assert.is(ask('Qwen3:0.6B').name, 'qwen3-0.6b');
  assert.is(ask('qwen3:0.6b', 'mine').name, 'mine');
  for (const known of ['llama3.2', 'gemma3:1b', 'smollm2', 'qwen2.5-coder', 'phi4-mini'])
    assert.match(ask(known).shown, /^hf:/);
  assert.is(ask('nomic-embed-text:latest').shown, ask('nomic-embed-text').shown);
  assert.is(ask('hf:user/repo').name, null, 'a reference is not a short name');
});

test('an unknown short name suggests a near one and says how to find others', () => {
  const refusal = (text: string): SvcError => {
    try {
      ask(text);
    } catch (error) {
      assert.instance(error, SvcError);
      return error as SvcError;
    }
    throw new Error(`${text} was read`);
  };
  const { code, message, hint } = refusal('lama3.2');
  assert.is(code, 'invalid_request');
  assert.match(message, 'lama3.2');
  assert.match(hint, 'Did you mean llama3.2?');
  assert.match(refusal('qwen3:0.5b').hint, 'Did you mean qwen3:0.6b?');
  assert.match(refusal('zzzzzzzz').hint, /^See svc model search/);
  assert.match(refusal('user/repo').hint, 'qwen3:0.6b');
});

test('a search takes every word, in name, licence or purpose', () => {
  assert.equal(searchKnown([]), knownModels);
  const coders = searchKnown(['code']).map(({ name }) => name.split(':')[0] ?? '');
  const named = ['qwen3-coder', 'qwen2.5-coder', 'devstral', 'glm-4.7-flash'];
  assert.equal([...new Set(coders)], named);
  assert.ok(searchKnown(['CODE apache-2.0']).length > 0);
  assert.ok(searchKnown(['embeddings']).some(({ name }) => name === 'nomic-embed-text:v1.5'));
  assert.equal(searchKnown(['code', 'no-such-word']), []);
  assert.is(findKnown('no-such'), null);
  assert.is(findKnown('qwen3:no-such'), null);
});

const signal = new AbortController().signal;
/** A machine for small models. */
const SMALL = {
  puller: {
    fit: (weights: number) =>
      fitOf(
        { weights },
        { parallel: 1, context_tokens: 4096 },
        { bytes: 4e9, engine_bytes: 4e9, free_bytes: 4e9, gpu_bytes: null, gpu_layers: 'auto' },
      ),
  },
};

pulls(
  'the hub is asked for the most downloaded models with the words',
  async ({ hub, puller }) => {
    hub.nextLists.push({
      body: JSON.stringify([
        {
          id: 'user/repo-GGUF',
          downloads: 12,
          tags: ['gguf', 'license:mit'],
          gated: false,
          gguf: { total: 8_000_000_000 },
        },
        { id: 'user/closed', downloads: 'many', gated: 'manual' },
        { id: '../escape' },
        { id: 7 },
        'text',
      ]),
    });
    const found = await puller.search('small chat', signal);
    const size_bytes = null;
    assert.equal(
      found.map(({ fit, ...rest }) => [rest, fit?.verdict, fit?.estimated]),
      [
        [
          {
            reference: 'hf:user/repo-GGUF',
            size_bytes,
            downloads: 12,
            licence: 'mit',
            gated: false,
          },
          'does not fit',
          true,
        ],
        [
          { reference: 'hf:user/closed', size_bytes, downloads: null, licence: null, gated: true },
          undefined,
          undefined,
        ],
      ],
    );
    assert.is(hub.lists[0]?.path, '/api/models');
    const query = new URLSearchParams(hub.lists[0]?.query);
    assert.equal(query.getAll('expand[]'), ['downloads', 'tags', 'gated', 'gguf']);
    query.delete('expand[]');
    assert.is(query.toString(), 'search=small+chat&filter=gguf&sort=downloads&limit=20');
    hub.nextLists.push({ body: '{"error":"no"}' });
    assert.match(await failure(puller.search('x', signal)), 'does not respond like a model hub');
    hub.nextLists.push({ status: 503 });
    assert.match(await failure(puller.search('x', signal)), '503');
    hub.nextLists.push({ body: 'x'.repeat(3 * 1024 * 1024) });
    assert.match(await failure(puller.search('x', signal)), 'has more than 2097152 bytes');
  },
  SMALL,
);

pulls(
  'a search for one repository finds its models, with what each needs',
  async ({ puller }) => {
    for (const words of ['user/tiny', 'hf:user/tiny']) {
      const found = await puller.search(words, signal);
      assert.equal(
        found.map(({ reference, size_bytes, fit }) => [reference, size_bytes, fit?.verdict]),
        [[`hf:user/tiny/${FILE}`, MODEL.length, 'fits']],
      );
    }
  },
  SMALL,
);

function failure(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'no error',
    (error: SvcError) => error.message,
  );
}

test.run();
