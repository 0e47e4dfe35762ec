/** SessionName is a page's heading: the session's title, and beside it the name by which commands know it. */
export function SessionName({ namespace, name, title }: { namespace: string; name: string; title: string | undefined }) {
  const full = `${namespace} / ${name}`;
  return (
    <>
      <h1 title={title || full}>{title || name}</h1>
      <span class="session-name muted" title={full}>
        {title ? full : namespace}
      </span>
    </>
  );
}
