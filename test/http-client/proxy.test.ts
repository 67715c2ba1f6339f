import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ProxyRefused, proxiesOf } from '../../src/http-client/proxy.ts';

const PROXY = 'http://proxy.example:3128';

/** no_proxy, addresses that go directly, and addresses that go through the proxy. */
const EXCEPTIONS: readonly (readonly [string, readonly string[], readonly string[]])[] = [
  ['', [], ['http://a.example', 'http://192.0.2.1', 'http://[2001:db8::1]']],
  ['*', ['http://a.example', 'https://192.0.2.1', 'http://[2001:db8::1]'], []],
  ['x.example, *', ['http://a.example'], []],
  [
    'a.example',
    ['http://a.example', 'https://A.Example:8443', 'http://b.a.example', 'http://a.example./'],
    ['http://ba.example', 'http://a.example.org', 'http://example'],
  ],
  ['.a.example', ['http://a.example', 'http://b.a.example'], ['http://ba.example']],
  ['*.a.example', ['http://a.example', 'http://b.a.example'], ['http://ba.example']],
  ['a.example.', ['http://a.example'], ['http://b.example']],
  [' b.example ,, A.EXAMPLE\tc.example ', ['http://a.example', 'http://c.example'], []],
  ['192.0.2.7', ['http://192.0.2.7', 'http://192.0.2.7:99'], ['http://192.0.2.70', PROXY]],
  ['192.0.2.0/24', ['http://192.0.2.0', 'http://192.0.2.255'], ['http://192.0.3.0']],
  ['10.0.0.0/9', ['http://10.127.255.255'], ['http://10.128.0.0', 'http://10.example']],
  ['0.0.0.0/0', ['http://192.0.2.1'], ['http://a.example', 'http://[2001:db8::1]']],
  ['192.0.2.1/32', ['http://192.0.2.1'], ['http://192.0.2.2']],
  ['192.0.2.0/33', [], ['http://192.0.2.0']],
  ['192.0.2.0/x', [], ['http://192.0.2.0']],
  ['192.0.2.*', ['http://192.0.2.0', 'http://192.0.2.255'], ['http://192.0.3.1']],
  ['10.*', ['http://10.1.2.3'], ['http://110.1.2.3', 'http://10.example']],
  ['300.*', [], ['http://192.0.2.1', 'http://300.example']],
  ['a.example:8080', ['http://a.example:8080'], ['http://a.example', 'http://a.example:80']],
  ['a.example:443', ['https://a.example'], ['http://a.example']],
  ['192.0.2.0/24:81', ['http://192.0.2.9:81'], ['http://192.0.2.9']],
  ['2001:db8::1', ['http://[2001:db8::1]', 'http://[2001:DB8:0::1]:9'], ['http://[2001:db8::2]']],
  ['[2001:db8::1]', ['http://[2001:db8::1]'], ['http://[2001:db8::2]']],
  ['[2001:db8::1]:99', ['http://[2001:db8::1]:99'], ['http://[2001:db8::1]']],
  ['2001:db8::/32', ['http://[2001:db8:ffff::1]'], ['http://[2001:db9::1]', 'http://192.0.2.1']],
  ['[2001:db8::]/32', [], ['http://a.example']],
];

test('no_proxy excepts names with those below them, addresses, blocks and ports', () => {
  for (const [no_proxy, direct, through] of EXCEPTIONS) {
    const { isExcepted } = proxiesOf({ http_proxy: PROXY, no_proxy });
    for (const address of direct) assert.ok(isExcepted(new URL(address)), `${no_proxy} ${address}`);
    for (const address of through)
      assert.not.ok(isExcepted(new URL(address)), `${no_proxy} ${address}`);
  }
});

test('each scheme has its variable; all_proxy is for the others, small letters before capitals', () => {
  const of = (env: NodeJS.ProcessEnv) => {
    const { http, https } = proxiesOf(env);
    return [http, https];
  };
  const [a, b, c] = ['http://a:1/', 'https://b:2/', 'http://c:3/'];
  assert.equal(of({}), [null, null]);
  assert.equal(of({ http_proxy: a }), [a, null]);
  assert.equal(of({ HTTPS_PROXY: b }), [null, b]);
  assert.equal(of({ ALL_PROXY: c }), [c, c]);
  assert.equal(of({ all_proxy: c, HTTP_PROXY: a }), [a, c]);
  assert.equal(of({ http_proxy: a, HTTP_PROXY: c }), [a, null]);
  assert.equal(of({ http_proxy: '', HTTP_PROXY: c }), [null, null]);
  assert.equal(of({ http_proxy: ' a:1 ' }), [a, null]);
});

test('a variable that names no proxy of HTTP is refused by its name, without its value', () => {
  const refusal = (env: NodeJS.ProcessEnv) => {
    try {
      proxiesOf(env);
    } catch (thrown) {
      assert.instance(thrown, ProxyRefused);
      return (thrown as Error).message;
    }
    return null;
  };
  const kind = (name: string, scheme: string) =>
    `The variable ${name} of the environment names a proxy of the kind ${scheme}://. ` +
    'svc speaks with those of http:// and https://.';
  assert.is(refusal({ ALL_PROXY: 'socks5://u:secret@p:1' }), kind('ALL_PROXY', 'socks5'));
  assert.is(refusal({ https_proxy: 'ftp://p' }), kind('https_proxy', 'ftp'));
  assert.is(
    refusal({ HTTPS_PROXY: 'secret@:::' }),
    'The variable HTTPS_PROXY of the environment is not an address.',
  );
  assert.is(refusal({ HTTP_PROXY: 'p:1', no_proxy: 'socks5://x' }), null);
});

test.run();
