import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { markdown, type Block, type Inline } from "../model/markdown";
import { inSlices } from "../model/slices";
import { Unrendered } from "./prose";
import { Text } from "./text";

/** Markdown renders a text. It stands as it was recorded until that is done, and when it cannot be. Nothing is fetched and nothing can be followed. */
export function Markdown({ text }: { text: string }) {
  const [tree, setTree] = useState<{ of: string; blocks: readonly Block[] | null } | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    inSlices(markdown(text), abort.signal).then(
      (blocks) => {
        if (!abort.signal.aborted) setTree({ of: text, blocks });
      },
      () => {
        if (!abort.signal.aborted) setTree({ of: text, blocks: null });
      },
    );
    return () => abort.abort();
  }, [text]);
  if (tree === null || tree.of !== text) return <Text text={text} />;
  if (tree.blocks === null) return <Unrendered text={text} why="This text is too long or too deep to be rendered." />;
  return (
    <div class="md">
      <Blocks blocks={tree.blocks} />
    </div>
  );
}

function Blocks({ blocks }: { blocks: readonly Block[] }) {
  return (
    <>
      {blocks.map((block, i) => (
        <BlockView key={i} block={block} />
      ))}
    </>
  );
}

function BlockView({ block }: { block: Block }) {
  switch (block.type) {
    case "heading":
      // The outline of the page is the page's own.
      return (
        <p class={`md-heading md-h${block.level}`}>
          <Inlines inlines={block.children} />
        </p>
      );
    case "paragraph":
      return (
        <p>
          <Inlines inlines={block.children} />
        </p>
      );
    case "code":
      return (
        <div class="md-code">
          {block.language !== "" && <p class="label">{block.language}</p>}
          <Text text={block.text} mono />
        </div>
      );
    case "quote":
      return (
        <blockquote>
          <Blocks blocks={block.children} />
        </blockquote>
      );
    case "list": {
      const items = block.items.map((item, i) => (
        <li key={i}>
          {item.done !== null && <span class="md-task">{item.done ? "☑ " : "☐ "}</span>}
          <Blocks blocks={item.children} />
        </li>
      ));
      return block.start === null ? <ul>{items}</ul> : <ol start={block.start}>{items}</ol>;
    }
    case "table":
      return (
        <div class="md-table" tabIndex={0} role="region" aria-label="Table">
          <table>
            <thead>
              <tr>{cells(block.head, true)}</tr>
            </thead>
            <tbody>
              {block.rows.map((row, i) => (
                <tr key={i}>{cells(row, false)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    case "rule":
      return <hr />;
    case "verbatim":
      return <Text text={block.text} mono />;
  }
}

function cells(row: readonly (readonly Inline[])[], head: boolean): ComponentChildren {
  return row.map((cell, i) =>
    head && cell.length > 0 ? (
      <th key={i} scope="col">
        <Inlines inlines={cell} />
      </th>
    ) : (
      <td key={i}>
        <Inlines inlines={cell} />
      </td>
    ),
  );
}

function Inlines({ inlines }: { inlines: readonly Inline[] }) {
  return (
    <>
      {inlines.map((inline, i) => (
        <InlineView key={i} inline={inline} />
      ))}
    </>
  );
}

function InlineView({ inline }: { inline: Inline }) {
  switch (inline.type) {
    case "text":
      return <>{inline.text}</>;
    case "code":
      return <code>{inline.text}</code>;
    case "break":
      return <br />;
    case "image":
      return (
        <span class="md-image">
          [image: {inline.alt} — {inline.url}]
        </span>
      );
    case "link":
      return <Link inline={inline} />;
    case "strong":
      return (
        <strong>
          <Inlines inlines={inline.children} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Inlines inlines={inline.children} />
        </em>
      );
    case "del":
      return (
        <del>
          <Inlines inlines={inline.children} />
        </del>
      );
  }
}

/** Link shows where a link would lead. An address that is its own text is not said twice. */
function Link({ inline }: { inline: Extract<Inline, { type: "link" }> }) {
  const only = inline.children[0];
  const same = inline.children.length === 1 && only?.type === "text" && only.text === inline.url;
  return (
    <span class="md-link">
      <Inlines inlines={inline.children} />
      {!same && (
        <span class="muted">
          {" "}
          ({inline.url}
          {inline.title !== "" && ` “${inline.title}”`})
        </span>
      )}
    </span>
  );
}
