// The settings that point Claude Code at this warden; what `lm-warden claude` prints, too.

/** Environment variables, in the order in which they are shown. */
export function claudeEnvironment(origin: string, model: string): [string, string][] {
  return [
    ['ANTHROPIC_BASE_URL', origin],
    ['ANTHROPIC_AUTH_TOKEN', 'lm-warden'],
    ['ANTHROPIC_MODEL', model],
    ['ANTHROPIC_SMALL_FAST_MODEL', model],
    ['ANTHROPIC_DEFAULT_HAIKU_MODEL', model],
    ['ANTHROPIC_DEFAULT_SONNET_MODEL', model],
    ['ANTHROPIC_DEFAULT_OPUS_MODEL', model],
    // Older versions change the first system block on every request otherwise, and the prefix
    // cache is lost from there on.
    ['CLAUDE_CODE_ATTRIBUTION_HEADER', '0'],
  ];
}

export function asShell(variables: [string, string][]): string {
  return variables.map(([name, value]) => `export ${name}=${quoted(value)}`).join('\n');
}

export function asSettings(variables: [string, string][]): string {
  return JSON.stringify({ env: Object.fromEntries(variables) }, null, 2);
}

function quoted(value: string): string {
  return /^[A-Za-z0-9_.:/@%+-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
