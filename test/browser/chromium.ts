import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';

/** The shell has no windows, and takes two thirds of the processor time of the whole browser. */
const NAMES = [
  'chromium-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
];

/** The browser of this machine; null without one. `CHROMIUM` names a browser outside the path. */
export function findChromium(): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const candidates = [
    process.env.CHROMIUM ?? '',
    ...NAMES.flatMap((name) => folders.map((folder) => join(folder, name))),
  ];
  return candidates.find((path) => path !== '' && isExecutable(path)) ?? null;
}

/**
 * Features that the tests need not. The last such flag counts, so it has what Playwright turns off
 * too, as far as it changes a page. The popups of the address bar are pages of each window.
 */
const FEATURES_OFF = [
  'DestroyProfileOnBrowserClose',
  'HttpsFirstBalancedModeAutoEnable',
  'HttpsUpgrades',
  'MediaRouter',
  'NetworkTimeServiceQuerying',
  'OptimizationHints',
  'PaintHolding',
  'PreconnectToSearch',
  'ThirdPartyStoragePartitioning',
  'WebUIOmniboxAimPopup',
  'WebUIOmniboxFullPopup',
  'WebUIOmniboxPopup',
];

export function launchBrowser(executablePath: string): Promise<Browser> {
  // The sandbox of the browser refuses root.
  const chromiumSandbox = process.geteuid?.() !== 0;
  // A new process would compile every script of a site again.
  const args = ['--process-per-site', `--disable-features=${FEATURES_OFF.join()}`];
  return chromium.launch({ executablePath, chromiumSandbox, args });
}

/** How a page looks, and what it may do. */
export interface PageOptions {
  viewport?: { width: number; height: number };
  reducedMotion?: 'reduce';
  permissions?: string[];
}

/**
 * A browser whose pages share one process. A page of the site stays open in it, so that the process
 * lasts.
 */
export class WarmBrowser {
  private readonly context: BrowserContext;
  private readonly kept: Page;
  private readonly origin: string;

  private constructor(context: BrowserContext, kept: Page, origin: string) {
    this.context = context;
    this.kept = kept;
    this.origin = origin;
  }

  /** `url`: the address of the daemon. A worker would load every file of each page again. */
  static async start(
    executablePath: string,
    url: string,
    serviceWorkers: 'allow' | 'block',
  ): Promise<WarmBrowser> {
    const browser = await launchBrowser(executablePath);
    const context = await browser.newContext({ serviceWorkers });
    const kept = await context.newPage();
    await kept.goto(url);
    return new WarmBrowser(context, kept, new URL(url).origin);
  }

  /** A page without anything of the pages before it: cookies, storage and permissions. */
  async openPage({
    viewport = { width: 1440, height: 1000 },
    permissions = [],
    ...media
  }: PageOptions): Promise<Watched> {
    const devtools = await this.context.newCDPSession(this.kept);
    await devtools.send('Storage.clearDataForOrigin', { origin: this.origin, storageTypes: 'all' });
    await devtools.detach();
    await this.context.clearCookies();
    await this.context.clearPermissions();
    await this.context.grantPermissions(permissions);
    const page = await this.context.newPage();
    await page.setViewportSize(viewport);
    await page.emulateMedia(media);
    return watch(page);
  }

  async close(): Promise<void> {
    await this.context.browser()?.close();
  }
}

/** A page that records its errors and its requests. */
export interface Watched {
  page: Page;
  /** Errors of the page or the browser, except of a daemon that is absent or not ready. */
  complaints: string[];
  hosts: Set<string>;
  close(): Promise<void>;
}

async function watch(page: Page): Promise<Watched> {
  const complaints: string[] = [];
  const hosts = new Set<string>();
  page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
  page.on('console', (message) => {
    const text = message.text();
    if (
      ['error', 'warning'].includes(message.type()) &&
      !/net::ERR_|WebSocket connection to|status of 503|blocked by Playwright/.test(text)
    )
      complaints.push(text);
  });
  page.on('request', (request) => hosts.add(new URL(request.url()).host));
  page.on('websocket', (socket) => hosts.add(new URL(socket.url()).host));
  await page.exposeFunction('complain', (text: string) => complaints.push(text));
  await page.addInitScript(
    "document.addEventListener('securitypolicyviolation', (event) => complain('policy: ' + event.violatedDirective + ' ' + event.blockedURI))",
  );
  return { page, complaints, hosts, close: () => page.close() };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
