import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { findAppBrowser } from '../../src/cli/console.ts';

const found = (
  platform: NodeJS.Platform,
  env: NodeJS.ProcessEnv,
  places: readonly string[],
): string | null => findAppBrowser({ platform, env }, (place) => places.includes(String(place)));

test('its own window needs a browser of the family, wherever the system has it', () => {
  const linux = { PATH: '/usr/local/bin:/usr/bin' };
  assert.is(found('linux', linux, ['/usr/bin/firefox']), null);
  assert.is(
    found('linux', linux, ['/usr/bin/google-chrome', '/usr/bin/chromium']),
    '/usr/bin/chromium',
  );
  const chrome = '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome';
  assert.is(found('darwin', {}, [chrome]), chrome);
  const edge = 'C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe';
  assert.is(found('win32', { 'ProgramFiles(x86)': 'C:\\Program Files (x86)' }, [edge]), edge);
});

test.run();
