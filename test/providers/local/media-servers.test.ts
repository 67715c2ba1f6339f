import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { fixedKey } from '../../../src/config/keys/keys.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { Origins } from '../../../src/models/origins.ts';
import { createRemote } from '../../../src/providers/adapters.ts';
import type { MediaPorts } from '../../../src/providers/local/servers/media-servers.ts';
import { makeGguf } from '../../fixtures/models/make-gguf.ts';
import { failure } from '../../helpers/failure.ts';
import { type LocalHarness, makeLocalProvider, readAnswer } from '../../helpers/local-provider.ts';
import { providerConfig } from '../../helpers/provider-config.ts';

/** Runs with images of a local model, which a llama-server answers. */
const test = suite<{ folder: string; local: LocalHarness; program: string | null }>('images');

const SCRIPT = fileURLToPath(new URL('../../helpers/scripted-server.mjs', import.meta.url));
const image = { type: 'image', media_type: 'image/png', data: 'iVBORw0KGgo=' } as const;
const LOOK = [{ role: 'user', content: [{ type: 'text', text: 'Look' }, image] }] as const;

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), 'svc-media-'));
  context.program = null;
  const at: MediaPorts['at'] = (id, base_url, key) =>
    createRemote({
      id,
      config: providerConfig({ model: id, like: 'llama-server', base_url }),
      env: {},
      keys: fixedKey(key),
      limits: defaultLimits,
      adapters: '',
    });
  context.local = makeLocalProvider({
    media: { program: () => context.program, at },
    library: { origins: new Origins(join(context.folder, 'origins')) },
  });
});
test.after.each(async ({ local, folder }) => {
  await local.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A program with the arguments of llama-server. It writes them to a file. */
function makeProgram(folder: string): { program: string; said: string } {
  const said = join(folder, 'arguments');
  const program = join(folder, 'llama-server');
  const node = `exec ${process.execPath} ${SCRIPT} --port="$port"`;
  const text = `#!/bin/sh\necho "$@" > ${said}\nfor port; do :; done\n${node}\n`;
  writeFileSync(program, text);
  chmodSync(program, 0o755);
  return { program, said };
}

test('what is missing is named with the command that brings it, first the file, then the program', async ({
  local,
  folder,
}) => {
  const path = makeGguf(join(local.folder, 'eyes.gguf'));
  const refusal = async () => {
    const { code, message, hint, param } = await failure(
      readAnswer(local, { model: 'eyes', messages: LOOK }),
    );
    return { code, message, hint, param };
  };
  const lacks = {
    code: 'capability_missing',
    message: 'eyes has no file for images and sound beside it (mmproj).',
    param: 'messages.0.content.1',
  };
  assert.equal(await refusal(), {
    ...lacks,
    hint:
      'Put the mmproj file of the model beside it, or take a model that has one: ' +
      'svc model pull hf:user/repo',
  });
  await new Origins(join(folder, 'origins')).write(path, 'eyes.gguf', {
    reference: 'hf:user/eyes:Q8_0',
    url: null,
    revision: null,
    sha256: '0'.repeat(64),
    at: '2026-01-01T00:00:00.000Z',
  });
  assert.equal(await refusal(), {
    ...lacks,
    hint: 'Its repository may have one. Run: svc model pull hf:user/eyes:Q8_0',
  });
  makeGguf(join(local.folder, 'eyes-mmproj.gguf'), { architecture: 'clip' });
  assert.equal(await refusal(), {
    ...lacks,
    message: 'Images and sound need llama-server, which is not installed.',
    hint: 'Run: svc engine install llama-server',
  });
});

test('an image goes to a server with the model and its file, and text stays with the engine', async (context) => {
  const { local, folder } = context;
  const { program, said } = makeProgram(folder);
  context.program = program;
  const model = makeGguf(join(local.folder, 'eyes.gguf'), { says: ['o', 'k'] });
  const projector = makeGguf(join(local.folder, 'eyes-mmproj.gguf'), { architecture: 'clip' });
  assert.is((await readAnswer(local, { model: 'eyes' })).text, 'ok');
  assert.not.ok(existsSync(said), 'a text starts no server');
  const answer = await readAnswer(local, { model: 'eyes', messages: LOOK });
  assert.is(answer.text, `data:image/png;base64,${image.data}`);
  assert.is(answer.finish?.finish_reason, 'stop');
  const given = readFileSync(said, 'utf8');
  const words = `-m ${model} --mmproj ${projector} -c ${defaultLimits.engine_context_tokens} -np 1`;
  assert.match(given, `${words} --host 127.0.0.1 --port `);
  const loaded = local.models.loaded(Date.now()).models.map(({ id, path }) => [id, path]);
  assert.equal(
    loaded.sort(),
    [
      ['local/eyes', model],
      ['local/eyes', `provider:${model}`],
    ].sort(),
  );
  await local.models.unload('eyes');
  assert.equal(local.models.loaded(Date.now()).models, []);
});

test.run();
