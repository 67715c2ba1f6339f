import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** The browser of this machine; null without one. `CHROMIUM` names a browser outside the path. */
export function findChromium(): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const candidates = [
    process.env.CHROMIUM ?? '',
    ...folders.flatMap((folder) => NAMES.map((name) => join(folder, name))),
  ];
  return candidates.find((path) => path !== '' && isExecutable(path)) ?? null;
}

export function launchBrowser(executablePath: string): Promise<Browser> {
  // The sandbox of the browser refuses root.
  const chromiumSandbox = process.geteuid?.() !== 0;
  return chromium.launch({ executablePath, chromiumSandbox });
}

/** A page that records its errors and its requests. */
export interface Watched {
  page: Page;
  /** Errors of the page or the browser. An absent daemon, or one that is not ready, is none. */
  complaints: string[];
  hosts: Set<string>;
  close(): Promise<void>;
}

export async function openPage(
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 1000 }, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  const hosts = new Set<string>();
  page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
  page.on('console', (message) => {
    const text = message.text();
    if (
      ['error', 'warning'].includes(message.type()) &&
      !/net::ERR_|WebSocket connection to|status of 503/.test(text)
    )
      complaints.push(text);
  });
  page.on('request', (request) => hosts.add(new URL(request.url()).host));
  page.on('websocket', (socket) => hosts.add(new URL(socket.url()).host));
  await page.exposeFunction('complain', (text: string) => complaints.push(text));
  await page.addInitScript(
    "document.addEventListener('securitypolicyviolation', (event) => complain('policy: ' + event.violatedDirective + ' ' + event.blockedURI))",
  );
  return { page, complaints, hosts, close: () => context.close() };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
