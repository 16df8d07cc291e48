/** The configuration in force: each value, where it is set, and when a change counts. */

import { SegmentedControl, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { api, type Schemas, unwrap } from "../../../api/client";
import { keys } from "../../../api/keys";
import { useRight } from "../../../api/queries";
import { CopyButton } from "../../../ui/Copy";
import { type Column, DataTable } from "../../../ui/DataTable";
import { EmptyState } from "../../../ui/EmptyState";
import { useFilters } from "../../../ui/filters";
import { IconSettings } from "../../../ui/icons";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { ToneBadge } from "../../../ui/StateBadge";
import { ReloadButton } from "./ReloadButton";
import classes from "./SettingsPage.module.css";
import { shownValue, tomlOf } from "./toml";

type Setting = Schemas["SettingView"];

export function SettingsPage() {
  const settings = useQuery({
    queryKey: keys.settings,
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/settings", { signal })),
  });
  const mayReload = useRight("administer");
  const [filters, setFilter] = useFilters({ text: "", show: "set" });
  return (
    <>
      <PageHeader
        title="Settings"
        subtitle="The configuration in force at the peer that serves this page."
        actions={mayReload && <ReloadButton />}
      />
      <Loaded query={settings} lines={8}>
        {(view) => (
          <div className="page-parts">
            <Panel title="Files" aside="the last one counts most">
              <ul className={classes.files}>
                {view.files.map((file) => (
                  <li key={file}>
                    <code>{file}</code>
                  </li>
                ))}
              </ul>
              {view.kept !== undefined && view.kept.length > 0 && (
                <p className={classes.kept} role="status">
                  Changed in the files, and counts at the next start only: {view.kept.join(", ")}
                </p>
              )}
            </Panel>
            <Panel
              title="Values"
              flush
              actions={
                <>
                  <TextInput
                    size="xs"
                    aria-label="Search settings"
                    placeholder="Search"
                    value={filters.text}
                    onChange={(event) => setFilter({ text: event.currentTarget.value })}
                    className={classes.search}
                  />
                  <SegmentedControl
                    size="xs"
                    aria-label="Values to show"
                    value={filters.show}
                    onChange={(show) => setFilter({ show })}
                    data={[
                      { value: "set", label: "Set" },
                      { value: "all", label: "All" },
                    ]}
                  />
                </>
              }
            >
              <DataTable
                label="Settings"
                rows={view.settings.filter((one) => isShown(one, filters))}
                rowKey={(setting) => setting.key}
                columns={COLUMNS}
                empty={<EmptyState icon={IconSettings} title="No setting fits" />}
              />
            </Panel>
          </div>
        )}
      </Loaded>
    </>
  );
}

function isShown(setting: Setting, { text, show }: { text: string; show: string }): boolean {
  const all = `${setting.key} ${shownValue(setting.value)}`.toLowerCase();
  return all.includes(text.toLowerCase()) && (show === "all" || setting.source.kind !== "default");
}

const COLUMNS: Column<Setting>[] = [
  {
    key: "key",
    header: "Key",
    card: "title",
    width: "26%",
    cell: (setting) => <code className={classes.key}>{setting.key}</code>,
  },
  {
    key: "value",
    header: "Value",
    cell: (setting) => (
      <span className={classes.value} data-default={setting.source.kind === "default" || undefined}>
        {shownValue(setting.value)}
      </span>
    ),
  },
  {
    key: "source",
    header: "Set by",
    width: "26%",
    cell: (setting) => <Source source={setting.source} />,
  },
  {
    key: "taken",
    header: "A change counts",
    width: "150px",
    cell: (setting) =>
      setting.taken_by === "reload" ? (
        <ToneBadge tone="ok" label="at a reload" />
      ) : (
        <ToneBadge tone="dim" label="at a restart" />
      ),
  },
  {
    key: "copy",
    header: "Copy",
    quiet: true,
    card: "plain",
    width: "60px",
    cell: (setting) => {
      const toml = tomlOf(setting.key, setting.value);
      return toml !== null && <CopyButton text={toml} label={`Copy ${setting.key} as TOML`} />;
    },
  },
];

function Source({ source }: { source: Setting["source"] }) {
  switch (source.kind) {
    case "file":
      return (
        <span title={`${source.path}:${source.line}`} className={classes.source}>
          {source.path.split("/").at(-1)}:{source.line}
        </span>
      );
    case "environment":
      return <span className={classes.source}>${source.name}, of the environment</span>;
    case "flag":
      return <span className={classes.source}>{source.name}, of the command line</span>;
    default:
      return <span className="dim">default</span>;
  }
}
