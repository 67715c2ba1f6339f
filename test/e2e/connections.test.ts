import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, makeHome } from '../helpers/svc.ts';
import { serve } from '../torture/daemon.ts';
import { works } from '../torture/disk.ts';

/**
 * What leaves this machine by default: nothing. The calls of the system say so, of every process
 * that svc starts.
 */
const test = suite<{ home: Home }>('connections');

/** Calls that name the address of another machine. */
const CALLS = 'trace=connect,sendto,sendmsg,sendmmsg';
const TRACE = ['strace', '-f', '-qq', '-e', CALLS, '-e', 'signal=none'];
const canTrace = works(...(TRACE as [string]), '-o', '/dev/null', 'true');
if (!canTrace) console.log('skipped: there is no strace here, or it may not trace');

/** The addresses in a trace, those of this machine apart. */
function addressesIn(trace: string): { own: string[]; others: string[] } {
  const found = [...trace.matchAll(/inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)"/g)].map(
    ([, address = '']) => address,
  );
  const isOwn = (address: string) => /^(127\.|::1$|::ffff:127\.)/.test(address);
  return { own: found.filter(isOwn), others: found.filter((address) => !isOwn(address)) };
}

test.before.each((context) => {
  context.home = makeHome();
});
test.after.each(({ home }) => home.close());

test('the trace of a connection names its address', () => {
  const lines = [
    '7 connect(20, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("192.0.2.7")}, 16) = 0',
    '7 connect(21, {sa_family=AF_INET6, sin6_port=htons(53), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "2001:db8::1", &sin6_addr), sin6_scope_id=0}, 28) = 0',
    '7 connect(22, {sa_family=AF_INET, sin_port=htons(11434), sin_addr=inet_addr("127.0.0.1")}, 16) = -1',
    '7 connect(23, {sa_family=AF_UNIX, sun_path="/tmp/svc.sock"}, 110) = 0',
  ];
  assert.equal(addressesIn(lines.join('\n')), {
    own: ['127.0.0.1'],
    others: ['192.0.2.7', '2001:db8::1'],
  });
});

(canTrace ? test : test.skip)(
  'a default start, a run, discover and doctor connect to this machine only',
  async ({ home }) => {
    const traced = (name: string) => [...TRACE, '-o', join(home.folder, `${name}.trace`)];
    const read = (name: string) => readFileSync(join(home.folder, `${name}.trace`), 'utf8');
    const life = await serve(home, { wrapper: traced('serve') });
    const commands: Record<string, string[]> = {
      run: ['run', 'What is svc?', '--no-start'],
      discover: ['provider', 'discover'],
      doctor: ['doctor'],
      list: ['model', 'list'],
    };
    for (const [name, args] of Object.entries(commands)) {
      const { code, stderr } = await home.svc(args, { wrapper: traced(name) });
      assert.ok(code === 0 || name === 'doctor', `${name} ends with ${code}: ${stderr}`);
    }
    await life.stop();
    for (const name of ['serve', ...Object.keys(commands)])
      assert.equal(addressesIn(read(name)).others, [], name);
    assert.match(read('run'), 'AF_UNIX', 'the trace has connections at all');
    assert.ok(addressesIn(read('discover')).own.length > 0, 'it asks the ports of this machine');
  },
);

test.run();
