import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Release {
  version: string;
  /** Where the files are published. The manifests add their names. */
  baseUrl: string;
  homepage: string;
  publisher: string;
  /** Digests (SHA-256) of the files, by name. */
  sums: ReadonlyMap<string, string>;
}

/** Processors, as Homebrew and winget name them. */
const CPUS = { x64: ['intel', 'x64'], arm64: ['arm', 'arm64'] } as const;
type Cpu = keyof typeof CPUS;

/** Writes the manifests of package managers below the folder. Returns the files. */
export function writeManifests(out: string, release: Release): string[] {
  const texts = { 'svc.rb': formula(release), ...winget(release) };
  return Object.entries(texts).flatMap(([name, text]) => {
    if (text === null) return [];
    const file = join(out, name);
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, text);
    return [file];
  });
}

/** The formula of Homebrew, for the systems that have an archive. Null: none has one. */
export function formula(release: Release): string | null {
  const blocks = (['linux', 'macos'] as const).flatMap((brewed) => {
    const os = brewed === 'macos' ? 'darwin' : brewed;
    const archives = archivesOf(release, os, 'tar.gz');
    if (archives.length === 0) return [];
    const cpus = archives.map(
      ({ cpu, url, sum }) =>
        `    on_${CPUS[cpu][0]} do\n      url "${url}"\n      sha256 "${sum}"\n    end\n`,
    );
    return [`  on_${brewed} do\n${cpus.join('')}  end\n`];
  });
  if (blocks.length === 0) return null;
  return `class Svc < Formula
  desc "Local AI runtime daemon with a durable event log"
  homepage "${release.homepage}"
  version "${release.version}"
  license "MIT"

${blocks.join('\n')}
  def install
    libexec.install Dir["*"]
    bin.install_symlink libexec/"bin/svc"
    man1.install_symlink Dir[libexec/"share/man/man1/*"]
    bash_completion.install_symlink libexec/"share/bash-completion/completions/svc"
    zsh_completion.install_symlink libexec/"share/zsh/site-functions/_svc"
    fish_completion.install_symlink libexec/"share/fish/vendor_completions.d/svc.fish"
  end

  service do
    run [opt_bin/"svc", "serve"]
    keep_alive crashed: true
  end

  test do
    ENV["SVC_HOME"] = testpath/"home"
    assert_match version.to_s, shell_output("#{bin}/svc version")
  end
end
`;
}

/** The three manifests of winget, by file. Without an archive for Windows there are none. */
export function winget(release: Release): Readonly<Record<string, string>> {
  const archives = archivesOf(release, 'win', 'zip');
  if (archives.length === 0) return {};
  const { version, publisher, homepage } = release;
  const id = `${publisher.replace(/[^A-Za-z0-9]/g, '')}.svc`;
  const manifest = (type: string, lines: readonly string[]) =>
    [
      `PackageIdentifier: ${id}`,
      `PackageVersion: ${version}`,
      ...lines,
      `ManifestType: ${type}`,
      'ManifestVersion: 1.6.0',
      '',
    ].join('\n');
  const installers = archives.flatMap(({ name, cpu, url, sum }) => [
    `- Architecture: ${CPUS[cpu][1]}`,
    `  InstallerUrl: ${url}`,
    `  InstallerSha256: ${sum.toUpperCase()}`,
    '  NestedInstallerFiles:',
    `  - RelativeFilePath: ${name.replace(/\.zip$/, '')}\\bin\\svc.cmd`,
    '    PortableCommandAlias: svc',
  ]);
  const file = (part: string) => join('winget', `${id}${part}.yaml`);
  return {
    [file('')]: manifest('version', ['DefaultLocale: en-US']),
    [file('.installer')]: manifest('installer', [
      'InstallerType: zip',
      'NestedInstallerType: portable',
      'Installers:',
      ...installers,
    ]),
    [file('.locale.en-US')]: manifest('defaultLocale', [
      'PackageLocale: en-US',
      `Publisher: ${publisher}`,
      'PackageName: svc',
      `PackageUrl: ${homepage}`,
      'License: MIT',
      'ShortDescription: Local AI runtime daemon with a durable event log',
    ]),
  };
}

function archivesOf({ version, baseUrl, sums }: Release, os: string, form: string) {
  return (Object.keys(CPUS) as Cpu[]).flatMap((cpu) => {
    const name = `svc-${version}-${os}-${cpu}.${form}`;
    const sum = sums.get(name);
    return sum === undefined
      ? []
      : [{ name, cpu, sum, url: `${baseUrl.replace(/\/$/, '')}/${name}` }];
  });
}
