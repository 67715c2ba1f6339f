import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LogHub } from '../../src/logs/hub.ts';

const all = () => true;

test('a follower gets what is written after it came, in order', async () => {
  const hub = new LogHub({ log_follow_lines: 16, log_follow_bytes: 1000 });
  hub.write('before');
  const follower = hub.follow(all);
  hub.write('a');
  hub.write('b');
  assert.equal(await follower.next(), { missed: 0, lines: ['a', 'b'] });
  const waiting = follower.next();
  hub.write('c');
  assert.equal(await waiting, { missed: 0, lines: ['c'] });
});

test('a follower that does not read keeps the newest lines, and gets the number it missed', async () => {
  const hub = new LogHub({ log_follow_lines: 16, log_follow_bytes: 1000 });
  const follower = hub.follow(all);
  for (let index = 0; index < 100; index += 1) hub.write(String(index));
  const batch = await follower.next();
  assert.is(batch?.missed, 84);
  assert.equal(
    batch?.lines,
    Array.from({ length: 16 }, (_, index) => String(84 + index)),
  );
  hub.write('next');
  assert.equal(await follower.next(), { missed: 0, lines: ['next'] });
});

test('a line that does not match is neither sent nor counted as missed', async () => {
  const hub = new LogHub({ log_follow_lines: 16, log_follow_bytes: 1000 });
  const follower = hub.follow((line) => line === 'wanted');
  for (let index = 0; index < 100; index += 1) hub.write('other');
  hub.write('wanted');
  assert.equal(await follower.next(), { missed: 0, lines: ['wanted'] });
});

test('a follower that leaves is removed and ends', async () => {
  const hub = new LogHub({ log_follow_lines: 16, log_follow_bytes: 1000 });
  const follower = hub.follow(all);
  const waiting = follower.next();
  follower.close();
  hub.write('a');
  assert.is(await waiting, null);
});

test('after a close, followers get the buffered lines and end; later ones end at once', async () => {
  const hub = new LogHub({ log_follow_lines: 16, log_follow_bytes: 1000 });
  const follower = hub.follow(all);
  hub.write('last');
  hub.close();
  hub.write('too late');
  assert.equal(await follower.next(), { missed: 0, lines: ['last'] });
  assert.is(await follower.next(), null);
  assert.is(await hub.follow(all).next(), null);
});

test('a buffer is bounded by the length of its lines too', async () => {
  const hub = new LogHub({ log_follow_lines: 16, log_follow_bytes: 1000 });
  const follower = hub.follow(() => true);
  for (let index = 0; index < 5; index += 1) hub.write('x'.repeat(400));
  assert.equal(await follower.next(), { missed: 3, lines: ['x'.repeat(400), 'x'.repeat(400)] });
  hub.write('y'.repeat(5000));
  assert.equal(
    await follower.next(),
    { missed: 0, lines: ['y'.repeat(5000)] },
    'one line is always there',
  );
});

test.run();
