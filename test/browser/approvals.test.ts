import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as assert from 'uvu/assert';
import type { DecisionInput } from '../../src/contract/approvals.ts';
import { scripted } from '../helpers/tool-servers.ts';
import { chunk, type Exchange, Upstream } from '../helpers/upstream.ts';
import { waitFor } from '../helpers/wait.ts';
import { ConsoleSuite } from './console-suite.ts';
import { sticksOut, unreadable } from './in-page.ts';

/** The page of approvals, with a model that calls a tool in its first turn. */
const on = new ConsoleSuite('approvals in the console');
const { test } = on;
const says = on.says.bind(on);
const button = (name: string) => on.page.getByRole('button', { name, exact: true });
let upstream: Upstream;

test.before(async () => {
  upstream = await Upstream.start(answer);
  if (on.life === undefined) return;
  const file = join(dirname(on.home.paths.config), 'mcp.json');
  const mcpServers = { tools: scripted(), other: scripted(), third: scripted() };
  writeFileSync(file, JSON.stringify({ mcpServers }), { mode: 0o600 });
  const { base_url } = upstream;
  await on.life.ask((client) =>
    client.call('provider.add', { id: 'scripted', base_url, model: 'm' }),
  );
});
test.after(() => upstream.stop());

/** The prompt is the arguments of the call. */
async function answer(exchange: Exchange): Promise<void> {
  if (exchange.received.path.endsWith('/models'))
    return exchange.reply(200, { data: [{ id: 'm' }] });
  const { messages, tools = [] } = exchange.json as {
    messages: { role: string; content: string }[];
    tools?: { function: { name: string } }[];
  };
  const name = tools[0]?.function.name;
  if (name === undefined || messages.some(({ role }) => role === 'tool'))
    return exchange.answer('It is done.');
  const call = { name, arguments: messages.at(-1)?.content };
  exchange.open();
  await exchange.event(
    chunk({ tool_calls: [{ index: 0, id: 'call_0', type: 'function', function: call }] }),
  );
  await exchange.finish('tool_calls');
  await exchange.done();
}

/** Starts a run that calls the tool, and returns its id. */
async function calls(tool: string, prompt = '{"id":"7"}', server = 'tools'): Promise<string> {
  const run = { prompt, provider: 'scripted', tool_servers: [`${server}/${tool}`] };
  return (await on.life.ask((client) => client.call('run.start', run))).id;
}

const cardOf = (run: string) => `[data-approval="${run}.1"]`;
const isDetached = (run: string) => on.page.locator(cardOf(run)).waitFor({ state: 'detached' });
/** As another client. The page may still ask for the changes of the call. */
const decide = (run: string, decision: DecisionInput['decision']) => {
  on.forgive(/409/);
  return on.life.ask((client) => client.call('approval.decide', { id: `${run}.1`, decision }));
};

/** The call of a run that has ended. */
async function ended(run: string) {
  const record = await waitFor(`${run} has ended`, async () => {
    const now = await on.life.ask((client) => client.call('run.get', { id: run }));
    return now.ended_at === null ? undefined : now;
  });
  assert.is(record.state, 'completed');
  return record.tool_calls?.[0];
}

/** The last messages that the model got. */
const heard = () => upstream.received.at(-1)?.body ?? '';

on.inBrowser('a call is seen, and allowed or denied with a reason, by keyboard', async () => {
  await on.signIn();
  await on.isGone('#approvals-count');
  // The next announcement may follow at once.
  await on.page.evaluate(`const said = document.getElementById('announce');
    window.announced = [];
    new MutationObserver(() => announced.push(said.textContent)).observe(said, { childList: true, characterData: true, subtree: true });`);
  const isAnnounced = (text: string) =>
    waitFor(`the page announces: ${text}`, async () =>
      (await on.page.evaluate<string[]>('announced')).includes(text),
    );
  const first = await calls('count');
  await says('#approvals-count', '1 wait for you');
  await isAnnounced('tools/count waits for you.');
  await waitFor('the title says it', async () => /^\(1\) /.test(await on.page.title()));
  await on.page.evaluate(`location.hash = '#/chat/${first}'`);
  await says('#chat-wait', /needs your approval/);
  await on.page.click('#chat [data-decide]');
  await on.isThere(cardOf(first));
  assert.match(on.page.url(), new RegExp(`#/approvals/${first}$`));
  await says(`${cardOf(first)} .arguments`, '{\n  "id": "7"\n}');
  await says(`${cardOf(first)} > p`, /Since .* denied at /);
  const link = on.page.locator(`${cardOf(first)} a`);
  assert.is(await link.getAttribute('href'), `#/runs/${first}`);
  for (const width of [1280, 360]) {
    await on.page.setViewportSize({ width, height: 800 });
    assert.equal(await sticksOut(on.page), []);
    assert.equal(await unreadable(on.page), []);
    await on.picture(`approvals-${width}`);
  }
  const second = await calls('count');
  await on.isThere(cardOf(second));
  await button('Allow: tools/count').first().focus();
  await on.page.keyboard.press('Enter');
  await isDetached(first);
  await isAnnounced('tools/count is allowed.');
  const focused = 'document.activeElement.dataset.approval';
  assert.is(await on.page.evaluate(focused), `${second}.1`, 'a card, and no button of it');
  const call = await ended(first);
  assert.equal([call?.state, call?.result], ['finished', 'counted']);
  await on.page.getByLabel(/^Why/).fill('Not on a Friday.');
  await button('Deny: tools/count').click();
  await isDetached(second);
  assert.is((await ended(second))?.state, 'denied');
  assert.match(heard(), /Not on a Friday/);
  await on.isGone('#approvals-count');
  await says('#approvals-note', 'No call of a tool waits for you.');
});

on.inBrowser('what another client decides leaves, and a late decision hears so', async () => {
  await on.signIn();
  await on.page.keyboard.press('a');
  await on.isThere('#approvals');
  const first = await calls('count');
  await on.isThere(cardOf(first));
  await decide(first, 'deny');
  await isDetached(first);
  const second = await calls('wait', '{}');
  const asked = Promise.withResolvers<void>();
  const free = Promise.withResolvers<void>();
  await on.page.route('**/v1/approvals/*', async (route) => {
    asked.resolve();
    await free.promise;
    await route.continue();
  });
  await button('Allow: tools/wait').click();
  await asked.promise;
  await decide(second, 'allow');
  await isDetached(second);
  free.resolve();
  await says('#approvals-said', /does not wait any more/);
  await on.life.ask((client) => client.call('run.cancel', { id: second }));
});

on.inBrowser('a call that was cut off gets the result that a person saw', async () => {
  // The page may ask for the changes of a call that another client decides.
  on.forgive(/409/);
  await on.signIn();
  await on.visit('approvals');
  const run = await calls('die', '{}');
  await button('Allow: tools/die').click();
  const give = button('Give this result: tools/die');
  await give.click();
  await says('#approvals-said', 'Write what the tool answered.');
  await says(`${cardOf(run)} .chip`, 'lost');
  await on.page.getByLabel('What the tool answered').fill('The branch is gone.');
  await give.click();
  assert.is((await ended(run))?.state, 'finished');
  assert.match(heard(), /The branch is gone/);
  // Each call ends another server.
  const [skipped, repeated] = [
    await calls('die', '{}', 'other'),
    await calls('die', '{}', 'third'),
  ];
  for (const id of [skipped, repeated]) {
    await on.isThere(cardOf(id));
    await decide(id, 'allow');
  }
  const press = (id: string, name: string) =>
    on.page.locator(cardOf(id)).getByRole('button', { name }).click();
  await press(skipped, 'Go on without');
  await ended(skipped);
  await press(repeated, 'Repeat');
  await waitFor('it was carried out again', async () => {
    const { events } = await on.life.ask((client) =>
      client.call('log.stream', { stream: repeated, from_version: 0, limit: 100 }),
    );
    return events.filter(({ type }) => type === 'run.tool_lost').length === 2;
  });
  await press(repeated, 'Go on without');
  await ended(repeated);
});

on.inBrowser('arguments are shown whole, and mean nothing to the page', async () => {
  const hostile =
    '<img src=x onerror=alert(1)> \u202egnp.exe \u2066\u200b\u{e0041}\u3164 \u001b[2J \u0085 ' +
    `${'far '.repeat(5000)}end`;
  await on.signIn();
  await on.visit('approvals');
  const run = await calls('count', JSON.stringify({ id: hostile }));
  await on.isThere(cardOf(run));
  const text = await on.text(`${cardOf(run)} .arguments`);
  for (const said of [
    '<img src=x',
    '\\u202egnp',
    '\\u200b',
    '\\udb40\\udc41',
    '\\u3164',
    '\\u001b',
  ])
    assert.ok(text.includes(said), said);
  assert.ok(text.endsWith('far end"\n}'));
  assert.not.match(text, /[\p{Cf}\u2028\u2029\u3164]|[^\P{Cc}\n]/u);
  assert.is(await on.page.locator('#approvals-list img').count(), 0);
  const hidden = `(() => { const pre = document.querySelector('#approvals-list .arguments');
    return [pre.scrollHeight - pre.clientHeight, pre.scrollWidth - pre.clientWidth]; })()`;
  assert.equal(await on.page.evaluate(hidden), [0, 0], 'nothing is out of sight');
  await decide(run, 'deny');
  await isDetached(run);
});

on.inBrowser('a tool is allowed from now on, after a question', async () => {
  await on.signIn();
  await on.visit('approvals');
  const first = await calls('count');
  await button('Always allow: tools/count').click();
  await says('#confirm-text', /^Allow tools\/count from now on/);
  await on.page.keyboard.press('Escape');
  await on.isGone('#confirm');
  await on.isThere(cardOf(first));
  await button('Always allow: tools/count').click();
  await on.page.click('#confirm-yes');
  await isDetached(first);
  await says('#approvals-undo', /To undo it: svc mcp set tools --tool count=ask$/);
  await ended(first);
  assert.is((await ended(await calls('count')))?.decided_by, 'policy');
});

on.inBrowser(
  'a call that waits behind a hidden page is notified, without its arguments',
  async () => {
    await on.seeNotifications();
    await on.signIn();
    await on.visit('settings');
    await on.page.check('#notify');
    await waitFor('it is on', () => on.page.evaluate('localStorage.getItem("svc-notify") === "1"'));
    const seen = await calls('big', '{"secret":1}');
    await says('#approvals-count', '1 wait for you');
    assert.equal(await on.notifications(), [], 'the page is seen');
    await on.page.evaluate('window.isHidden = true');
    const run = await calls('big', '{"secret":2}');
    await waitFor('it is shown', async () => (await on.notifications()).length > 0);
    assert.equal(
      (await on.notifications()).map(({ title, tag }) => [title, tag]),
      [['A call of a tool waits for you', `${run}.1`]],
    );
    assert.not.match(JSON.stringify(await on.notifications()), 'secret');
    await on.page.evaluate('window.isHidden = false; window.last.onclick()');
    await on.isThere(cardOf(run));
    assert.match(on.page.url(), new RegExp(`#/approvals/${run}$`));
    for (const one of [seen, run]) await decide(one, 'deny');
    await on.page.evaluate('localStorage.removeItem("svc-notify")');
  },
);

test.run();
