import type { Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { PausedServer } from '../helpers/paused-server.ts';
import { type Home, makeHome } from '../helpers/svc.ts';
import { waitFor } from '../helpers/wait.ts';
import { type Life, serve } from '../torture/daemon.ts';
import { findChromium, type PageOptions, WarmBrowser, type Watched } from './chromium.ts';
import { textOnce } from './in-page.ts';

/**
 * The console in a real browser, with a real daemon. The provider `held` answers when the test says
 * so. CONSOLE_PICTURES names a folder for screenshots.
 */
export class ConsoleSuite {
  readonly test;
  readonly held = new PausedServer();
  home!: Home;
  life!: Life;
  url = '';
  watched!: Watched;
  page!: Page;
  private browser: WarmBrowser | undefined;
  private forgiven: RegExp[] = [];
  private readonly executable = findChromium();

  private readonly workers: 'allow' | 'block';

  constructor(name: string, { workers = 'block' }: { workers?: 'allow' | 'block' } = {}) {
    this.workers = workers;
    this.test = suite(name);
    if (this.executable === null) process.stdout.write('skipped: no chromium\n');
    this.test.before(() => this.start());
    this.test.after(() => this.stop());
  }

  /** A test with a new page. The page may have no error, and may request only the daemon. */
  inBrowser(name: string, act: () => Promise<void>, options: PageOptions = {}): void {
    const define = this.executable === null ? this.test.skip : this.test;
    define(name, async () => {
      this.forgiven = [];
      assert.ok(this.browser);
      this.watched = await this.browser.openPage(options);
      this.page = this.watched.page;
      try {
        await act();
      } catch (error) {
        const said = this.watched.complaints;
        if (said.length === 0 || !(error instanceof Error)) throw error;
        throw new Error(`${error.message}\nThe page complained: ${said.join('; ')}`, {
          cause: error,
        });
      } finally {
        this.held.finish();
        await this.watched.close();
      }
      const complaints = this.watched.complaints.filter(
        (said) => !this.forgiven.some((what) => what.test(said)),
      );
      assert.equal(complaints, [], 'nothing in the page complained');
      assert.equal([...this.watched.hosts], [new URL(this.url).host], 'no other host was asked');
    });
  }

  async ticketUrl(): Promise<string> {
    return (await this.life.ask((client) => client.call('console', {}))).url;
  }

  async text(selector: string): Promise<string> {
    return (await this.page.locator(selector).first().textContent()) ?? '';
  }

  says(selector: string, what: string | RegExp): Promise<true> {
    let said = '';
    const name = () => `${selector} says ${what}; it says: ${said}`;
    return waitFor(name, async () => {
      said = await textOnce(this.page, selector, what).catch((error: Error) => {
        // The page is loading another one.
        if (/context was destroyed|navigat/.test(error.message)) return '';
        throw error;
      });
      return typeof what === 'string' ? said === what : what.test(said);
    });
  }

  isThere(selector: string): Promise<void> {
    return this.page.locator(selector).first().waitFor({ timeout: 30_000 });
  }

  isGone(selector: string): Promise<void> {
    return this.page.locator(selector).first().waitFor({ state: 'hidden', timeout: 30_000 });
  }

  async signIn(): Promise<void> {
    await this.page.goto(await this.ticketUrl());
    await this.says('#status-path', /^(ready|answering)/);
  }

  /**
   * Keeps the notifications of the page in place of showing them. `window.isHidden` says whether
   * it is hidden: the shell shows none, and is never hidden.
   */
  async seeNotifications(): Promise<void> {
    await this.page.addInitScript(`(() => {
      window.shown = [];
      window.asked = 0;
      window.Notification = class {
        static permission = 'default';
        static async requestPermission() { window.asked += 1; return (Notification.permission = 'granted'); }
        constructor(title, options) { window.shown.push({ title, ...options }); window.last = this; }
      };
      window.isHidden = false;
      Object.defineProperty(document, 'hidden', { get: () => window.isHidden });
    })()`);
  }

  notifications(): Promise<{ title: string; tag: string }[]> {
    return this.page.evaluate('window.shown');
  }

  async visit(name: string): Promise<void> {
    await this.page.click(`#nav [data-page=${name}]`);
    await this.isThere(`section[data-pages~=${name}]`);
  }

  /** Asks in the chat. With `fresh` it begins a conversation. */
  async ask(prompt: string, { provider = '', fresh = true } = {}): Promise<void> {
    if (fresh) await this.visit('chat');
    await this.page.fill('#ask-prompt', prompt);
    await this.chooseModelOf(provider);
    await this.send();
    await this.says('.turn.user:nth-last-child(2)', prompt);
  }

  /** Sends what the form says. What the page shows afterwards is of the new run. */
  async send(press = () => this.page.click('#ask-send')): Promise<void> {
    const before = this.page.url();
    await press();
    await waitFor('the page shows the new run', () => this.page.url() !== before);
  }

  /** The provider answers the shown run with this text, and the run is over. */
  async answered(text: string): Promise<void> {
    await this.isHeld();
    this.held.say(text);
    this.held.finish();
    await this.says('#chat-state', 'completed');
  }

  /** Chooses the first model of a provider; without one, none. */
  async chooseModelOf(provider: string): Promise<void> {
    const first = `#ask-model optgroup[label^="${provider} ("] option`;
    const value =
      provider === '' ? '' : await this.page.locator(first).first().getAttribute('value');
    await this.page.selectOption('#ask-model', value);
  }

  /** Asks, and opens the page of the run. */
  async askRun(prompt: string, provider = ''): Promise<void> {
    await this.ask(prompt, { provider });
    await this.page.click('#chat-run');
    await this.says('#run-prompt', prompt);
  }

  /** The browser may say this of refused requests, also of one that is still on its way. */
  forgive(what: RegExp): void {
    this.forgiven.push(what);
  }

  /** Waits until the paused provider has a request. */
  isHeld(): Promise<true> {
    return waitFor('the other server is asked', () => this.held.streams.size === 1);
  }

  async picture(name: string): Promise<void> {
    const folder = process.env.CONSOLE_PICTURES;
    if (folder === undefined) return;
    await this.page.screenshot({ path: `${folder}/console-${name}.png` });
    await this.page.screenshot({ path: `${folder}/console-${name}-whole.png`, fullPage: true });
  }

  private async start(): Promise<void> {
    if (this.executable === null) return;
    this.home = makeHome();
    this.life = await serve(this.home);
    this.url = (await this.life.ask((client) => client.call('status'))).addresses.http ?? '';
    const base_url = await this.held.listen();
    await this.life.ask((client) =>
      client.call('provider.add', { id: 'held', base_url, model: 'held' }),
    );
    this.browser = await WarmBrowser.start(this.executable, this.url, this.workers);
  }

  private async stop(): Promise<void> {
    if (this.executable === null) return;
    // Perhaps the start has failed on the way.
    try {
      await this.browser?.close();
      await this.life?.stop(0);
    } finally {
      await this.held.close();
      await this.home?.close();
    }
  }
}
