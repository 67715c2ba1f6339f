// For a daemon of a test: this machine counts as public, so that `svc:http` gets a page of it.
import { BlockList } from 'node:net';

const { check } = BlockList.prototype;
BlockList.prototype.check = function (address, family) {
  return address !== '127.0.0.1' && check.call(this, address, family);
};
