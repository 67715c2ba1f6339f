import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { mcpFile } from '../../src/config/mcp-file.ts';
import { numberFields } from '../../src/contract/options.ts';
import { waitFor } from '../helpers/wait.ts';
import { ConsoleSuite } from './console-suite.ts';

/** The chat of the console: answers as Markdown, follow-ups, and what a hostile model writes. */
const on = new ConsoleSuite('the chat');
const { test, held } = on;
const says = on.says.bind(on);
const count = (selector: string) => on.page.locator(selector).count();

const answered = on.answered.bind(on);
const runOf = (address: string) => /run_\w+/.exec(address)?.[0] ?? '';

on.inBrowser('an answer is drawn as Markdown where the user looks', async () => {
  await on.signIn();
  await on.ask('Show me', { provider: 'held' });
  await answered(
    '# Title\n\nA **bold** `word` &amp; [a link](https://example.org/a).\n\n1. one\n   - inner\n2. two\n\n```ts\nconst a = "<b>";\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n> said\n',
  );
  const answer = '#chat-answer';
  await says(`${answer} h3`, 'Title');
  await says(`${answer} strong`, 'bold');
  assert.match(await on.text(`${answer} p`), 'word & a link');
  assert.is(await on.page.locator(`${answer} a`).getAttribute('href'), 'https://example.org/a');
  assert.is(await on.page.locator(`${answer} a`).getAttribute('rel'), 'noopener noreferrer');
  assert.is(await count(`${answer} ol > li`), 2);
  assert.is(await on.text(`${answer} ol ul li`), 'inner');
  assert.is(await on.text(`${answer} pre code`), 'const a = "<b>";');
  assert.equal(await on.page.locator(`${answer} td`).allTextContents(), ['1', '2']);
  await says(`${answer} blockquote`, 'said');
  await says('.turn .foot', /held\/held/);
  const { top, bottom } = await on.page.evaluate<{ top: number; bottom: number }>(
    "(() => { const { top, bottom } = document.querySelector('#chat-answer').getBoundingClientRect(); return { top, bottom }; })()",
  );
  assert.ok(bottom > 0 && top < 800, 'the answer is on the screen');
});

const EVIL = [
  '<img src=x onerror="complain(\'img\')">',
  '<script>complain("script")</script>',
  '<svg onload=complain(1)><style>body{display:none}</style></svg>',
  '[click](javascript:complain(1)) [data](data:text/html,<script>complain(2)</script>)',
  '[v](vbscript:x) [j](JaVaScRiPt&colon;complain(3)) <javascript:complain(4)>',
  '![pic](https://evil.example/track.png) ![p](javascript:complain(5))',
  '<a href="https://evil.example" onclick="complain(6)" id=evil>a</a><iframe src="//evil.example">',
  '```"><img src=x onerror=complain(7)>\n</code></pre><b id=evil>\n```',
  '| <b id=evil> | <form action=//evil.example> |\n|---|---|\n| <input autofocus onfocus=complain(8)> | x |',
  '&lt;img src=x onerror=complain(9)&gt; &#60;b id=evil&#62; &#0; &#xD800;',
  '<math><mi xlink:href="javascript:complain(10)">x</mi></math><base href="//evil.example/">',
].join('\n\n');

on.inBrowser('the text of a model or a user is never read as HTML', async () => {
  await on.signIn();
  await on.ask(EVIL.replaceAll('\n', ' '), { provider: 'held' });
  await answered(EVIL);
  const looksSafe = async (box: string) => {
    await says(box, /onerror=complain\(9\)/);
    assert.is(
      await count(
        `#evil, main img, main script, main iframe, main style, main math, main base, ${box} svg, ${box} form, ${box} input`,
      ),
      0,
    );
    const links = await on.page
      .locator(`${box} a`)
      .evaluateAll((all) => all.map((one) => one.getAttribute('href') ?? ''));
    assert.ok(links.length > 0);
    for (const link of links) assert.match(link, /^(https?|mailto):/);
    const handlers = await on.page
      .locator(`${box} *`)
      .evaluateAll((all) =>
        all.flatMap((one) =>
          one.getAttributeNames().filter((name: string) => name.startsWith('on')),
        ),
      );
    assert.equal(handlers, []);
  };
  await looksSafe('#chat-answer');
  await on.page.click('#chat-run');
  await looksSafe('#run-output');
  await on.page.click('#run-plain');
  await waitFor(
    'the answer is as it is written',
    async () => (await on.text('#run-output')) === EVIL,
  );
  await on.page.click('#run-plain');
  await looksSafe('#run-output');
  await on.visit('log');
  const row = on.page.locator('#events-table tbody', { hasText: 'run.output_appended' }).first();
  await row.locator('[aria-expanded]').click();
  await says('#events-table .data', /onerror/);
  assert.is(await count('#evil, main img, main script'), 0);
});

on.inBrowser('a text that is too deep or too long is drawn, and the page stays alive', async () => {
  await on.signIn();
  for (const text of [
    `${'> '.repeat(3000)}deep`,
    `${'- '.repeat(3000)}deep`,
    `${'*'.repeat(20_000)}deep`,
    `${'['.repeat(20_000)}deep`,
    `${'a '.repeat(60_000)}deep`,
  ]) {
    await on.ask('Deep', { provider: 'held' });
    await answered(text);
    await says('#chat-answer', /deep$/);
  }
});

on.inBrowser('a follow-up sends the turns before it, and its address has them all', async () => {
  await on.signIn();
  await on.ask('First question', { provider: 'held' });
  await answered('First answer');
  await on.ask('Second question', { fresh: false });
  assert.is(await on.page.locator('#ask-prompt').inputValue(), '');
  await answered('Second answer');
  const id = runOf(on.page.url());
  const run = await on.life.ask((client) => client.call('run.get', { id }));
  const texts = (run.messages ?? []).map(({ role, content }) => [
    role,
    content.map((part) => ('text' in part ? part.text : '')).join(''),
  ]);
  assert.equal(texts, [
    ['user', 'First question'],
    ['assistant', 'First answer'],
    ['user', 'Second question'],
  ]);
  assert.is(run.provider, 'held', 'the conversation stays with its provider');
  assert.ok(run.conversation !== undefined && run.conversation !== id);
  await on.page.reload();
  await says('#chat-answer', 'Second answer');
  const turns = await on.page.locator('#chat-turns .turn').allTextContents();
  assert.is(turns.length, 4);
  assert.match(turns[1] ?? '', 'First answer');
  await on.page.click('#chat-new');
  await on.isGone('#chat-turns .turn');
  await says('#recent-chats li:first-child', /First question.*held\/held · 2 questions/);
});

on.inBrowser(
  'an answer to a request about a conversation that was left shows nothing',
  async () => {
    await on.signIn();
    await on.ask('Leave me', { provider: 'held' });
    await answered('Left');
    const path = `/v1/runs/${runOf(on.page.url())}`;
    const [arrived, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let [asked, ended] = [0, 0];
    const isIt = (request: { url(): string }) => request.url().endsWith(path);
    on.page.on('request', (request) => (asked += Number(isIt(request))));
    on.page.on('requestfinished', (request) => (ended += Number(isIt(request))));
    on.page.on('requestfailed', (request) => (ended += Number(isIt(request))));
    await on.page.route(`**${path}`, async (route) => {
      arrived.resolve();
      await released.promise;
      await route.continue().catch(() => undefined);
    });
    await on.page.reload();
    await arrived.promise;
    await on.page.evaluate("location.assign('#/chat')");
    await says('#recent-chats', /Leave me/);
    released.resolve();
    await waitFor('no request waits', () => asked > 0 && asked === ended);
    await on.page.evaluate(
      'new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))',
    );
    assert.is(await count('#chat-turns .turn'), 0);
  },
);

on.inBrowser('system text and bounds of the form are those of the run', async () => {
  await on.signIn();
  await on.visit('chat');
  await on.page.click('#ask-more summary');
  await on.page.fill('#ask-system', 'Be brief.');
  await on.page.fill('#ask-temperature', '0.5');
  await on.page.fill('#ask-max-tokens', '7');
  await on.ask('Who are you?', { provider: 'held', fresh: false });
  await answered('Me');
  const run = await on.life.ask((client) => client.call('run.get', { id: runOf(on.page.url()) }));
  assert.equal([run.system, run.prompt], ['Be brief.', 'Who are you?']);
  await says('.turn.system', /Be brief\./);
});

on.inBrowser(
  'an answer can be stopped where it grows, and copied',
  async () => {
    await on.signIn();
    await on.ask('Say it slowly', { provider: 'held' });
    await on.isHeld();
    held.say('one **two**');
    await says('#chat-answer', 'one two');
    assert.is(await on.page.locator('#ask-send').isVisible(), false);
    await on.page.click('#ask-stop');
    await says('#chat-state', 'cancelled');
    await waitFor('the work has stopped', () => held.streams.size === 0);
    await on.page.locator('#ask-send').waitFor();
    await on.page.getByRole('button', { name: 'Copy the answer' }).first().click();
    await says('#announce', 'Copied');
    assert.is(await on.page.evaluate('navigator.clipboard.readText()'), 'one **two**');
  },
  { permissions: ['clipboard-read', 'clipboard-write'] },
);

on.inBrowser('what the page says of a stop is in view, above the form', async () => {
  await on.signIn();
  await on.ask('Say much', { provider: 'held' });
  await on.isHeld();
  held.say(Array.from({ length: 60 }, (_, index) => `Line ${index}.`).join('\n\n'));
  await says('#chat-answer', /Line 59\./);
  await on.page.evaluate('window.scrollTo(0, 0)');
  await on.page.click('#ask-stop');
  await says('#chat-error', /was cancelled/);
  const room = () =>
    on.page.evaluate<number>(
      "document.querySelector('#ask').getBoundingClientRect().top - document.querySelector('#chat-error').getBoundingClientRect().bottom",
    );
  await waitFor('the notice is above the form', async () => (await room()) >= 0);
});

on.inBrowser('the form says who answers next, and has all models in one list', async () => {
  await on.signIn();
  await on.visit('chat');
  const first = () => on.text('#ask-model option:first-child');
  await waitFor('it names the default', async () => (await first()) === 'Default: local/svc-mini');
  assert.match(await on.text('#ask-model option[value="local/svc-mini"]'), /svc-mini · [\d.]+ MiB/);
  assert.match(
    (await on.page.locator('#ask-model optgroup').nth(1).getAttribute('label')) ?? '',
    /^held \(local\)$/,
  );
  await on.ask('Who are you?', { provider: 'held' });
  await answered('Held');
  await waitFor('it stays', async () => (await first()) === 'As before: held/held');
  assert.is(await on.page.locator('#ask-model').inputValue(), '');
  await on.page.reload();
  await waitFor('it stays', async () => (await first()) === 'As before: held/held');
  await on.page.selectOption('#ask-model', 'typed');
  await on.page.fill('#ask-other', 'held/typed-by-hand');
  await on.page.fill('#ask-prompt', 'And you?');
  await on.send();
  await on.isHeld();
  await waitFor('it is that one', async () => (await first()) === 'As before: held/typed-by-hand');
  assert.is(await on.page.locator('#ask-other').isVisible(), false);
  await answered('Typed');
});

on.inBrowser('the form has every number of a run, stop texts, a schema and presets', async () => {
  const texts = { system: 'Be short.', template: 'Say: {prompt}', model: 'held/held' };
  const preset = { ...texts, seed: 7, tool_servers: ['notes/read'] };
  writeFileSync(on.home.paths.config, JSON.stringify({ presets: { brief: preset } }));
  const notes = { type: 'svc:files', folders: [mkdtempSync(join(tmpdir(), 'svc-notes-'))] };
  writeFileSync(mcpFile(on.home.paths.config), JSON.stringify({ mcpServers: { notes } }));
  await on.signIn();
  await on.visit('chat');
  await on.page.click('#ask-more summary');
  await on.page.locator('#ask-seed').waitFor();
  assert.is(await count('#ask-numbers input'), Object.keys(numberFields).length);
  await on.page.fill('#ask-top-p', '2');
  await on.page.fill('#ask-prompt', 'hello');
  await on.page.click('#ask-send');
  await says('#ask-said', /^Top p: /);
  await on.page.selectOption('#ask-preset', 'brief');
  assert.is(await on.page.locator('#ask-top-p').inputValue(), '', 'a preset replaces all fields');
  await on.page.fill('#ask-ends', 'END\n\\n\\n');
  await on.page.fill('#ask-schema', '[]');
  await on.page.click('#ask-send');
  await says('#ask-said', /must be a JSON object/);
  await on.page.fill('#ask-schema', '{"type": "object"}');
  await on.send();
  await answered('{}');
  const run = await on.life.ask((client) => client.call('run.get', { id: runOf(on.page.url()) }));
  const why = await on.page.evaluate<{ events: { data: { request: Record<string, unknown> } }[] }>(
    `fetch('/v1/runs/${run.id}/why').then((answer) => answer.json())`,
  );
  const { seed, stop, response_format, tools } = why.events[0]?.data.request ?? {};
  assert.equal(
    [run.prompt, run.system, run.model, seed, stop, response_format],
    [
      'Say: hello',
      'Be short.',
      'held',
      7,
      ['END', '\n\n'],
      { type: 'json', name: null, schema: { type: 'object' } },
    ],
  );
  assert.is((tools as { name: string }[])[0]?.name, 'notes__read');
  await says('#ask-set', '(6 set)');
});

on.inBrowser(
  'conversations are listed apart from single questions, renamed and deleted',
  async () => {
    await on.life.ask((client) => client.call('run.start', { prompt: 'Asked only once' }));
    await on.signIn();
    await on.ask('Which birds swim?', { provider: 'held' });
    await answered('Penguins.');
    await on.ask('And which fly?', { fresh: false });
    await answered('Most.');
    await on.page.click('#chat-rename');
    await on.page.fill('#confirm-input', 'Birds');
    await on.page.keyboard.press('Enter');
    await says('#chat-h', 'Birds');
    const saved = on.page.waitForEvent('download');
    await on.page.click('#chat-save');
    const path = await (await saved).path();
    assert.match(
      readFileSync(path, 'utf8'),
      /^# Birds\n\n## User\n\nWhich birds swim\?\n\n## Assistant\n\nPenguins\.\n\n## User\n\nAnd which fly\?\n\n## Assistant\n\nMost\.\n$/,
    );
    await on.page.click('#chat-new');
    const row = '#recent-chats li:first-child';
    await says(row, /^Birdsheld\/held · 2 questions · \d\d:\d\d/);
    assert.not.match(await on.text('#recent-chats'), /Asked only once/);
    await says('#recent-once', /Asked only once/);
    await on.page.fill('#recent-find', 'penguins');
    await says('#recent-chats', /^Birds.*Penguins/);
    assert.is(await count('#recent-chats li'), 1);
    await on.page.fill('#recent-find', '');
    await says(row, /^Birds/);
    // Another client names it, and the page follows.
    const id = /run_\w+/.exec(
      (await on.page.locator(row).getAttribute('data-conversation')) ?? '',
    )?.[0];
    await on.page.evaluate(
      `fetch('/v1/conversations/${id}', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ metadata: { title: 'Fowl' } }) })`,
    );
    await says(row, /^Fowl/);
    await on.page.getByRole('button', { name: 'Delete Fowl' }).click();
    await says('#confirm-text', /^Delete “Fowl”\? Its 2 runs, with what was asked and answered/);
    await on.page.keyboard.press('Escape');
    await says(row, /^Fowl/);
    await on.page.getByRole('button', { name: 'Delete Fowl' }).click();
    await on.page.click('#confirm-yes');
    await on.isGone(`[data-conversation="${id}"]`);
    const { runs } = await on.life.ask((client) => client.call('run.list', {}));
    assert.not.ok(runs.some(({ conversation }) => conversation === id));
  },
);

on.inBrowser('words of a finished run are found, and lead to its page', async () => {
  await on.signIn();
  await on.ask('A question about aardvarks', { provider: 'held' });
  await answered('They dig <b id=evil> burrows.');
  await on.visit('runs');
  await on.page.fill('#runs-find', 'burrows');
  await says('#runs-rows mark', 'burrows');
  assert.is(await count('#runs-rows tr'), 1);
  assert.is(await count('#evil'), 0);
  await on.page.click('#runs-rows a');
  await says('#run-prompt', 'A question about aardvarks');
  await on.visit('runs');
  await on.page.fill('#runs-find', 'nowhereatall');
  await says('#runs-note', /No finished run has these words/);
});

on.inBrowser(
  'the end of a growing answer stays above the form, unless the user reads above it',
  async () => {
    await on.signIn();
    await on.ask('Say much', { provider: 'held' });
    await on.isHeld();
    const lines = (from: number) =>
      Array.from({ length: 30 }, (_, index) => `Line ${from + index}.`).join('\n\n');
    const end = () =>
      on.page.evaluate<number>(
        "document.querySelector('#ask').getBoundingClientRect().top - document.querySelector('#chat-answer').lastChild.getBoundingClientRect().bottom",
      );
    for (const from of [1, 31]) {
      held.say(`${lines(from)}\n\n`);
      await says('#chat-answer', new RegExp(`Line ${from + 29}\\.`));
      await waitFor('its end is in view', async () => (await end()) >= 0);
    }
    // A drawing that moves the view in a later frame would undo what the user does before it.
    await on.page.evaluate(`
      new MutationObserver((_, seen) => {
        seen.disconnect();
        window.scrollTo(0, 0);
        requestAnimationFrame(() => requestAnimationFrame(() => { window.later = true; }));
      }).observe(document.querySelector('#chat-answer'), { childList: true, subtree: true });
    `);
    held.say(`${lines(61)}\n\n`);
    await says('#chat-answer', /Line 90\./);
    await waitFor('a later frame', async () => await on.page.evaluate<boolean>('window.later'));
    assert.is(await on.page.evaluate('window.scrollY'), 0);
    held.say(lines(91));
    await says('#chat-answer', /Line 120\./);
    assert.is(await on.page.evaluate('window.scrollY'), 0);
  },
  { viewport: { width: 390, height: 700 } },
);

on.inBrowser('a run that fails says what happened, what to do, and its code', async () => {
  await on.life.ask((client) =>
    client
      .call('provider.add', { id: 'nowhere', base_url: 'http://127.0.0.1:9/v1', model: 'm' })
      .catch(() => null),
  );
  await on.signIn();
  await on.ask('Will it answer?', { provider: 'nowhere' });
  await says('#chat-state', 'failed');
  await says('#chat-error', /nowhere.*refuses the connection.*provider_unreachable/);
  await says('#chat-error p:nth-child(2)', /svc provider test nowhere/);
  await on.page.click('#chat-run');
  await says('#run-error', /provider_unreachable/);
});

test.run();
