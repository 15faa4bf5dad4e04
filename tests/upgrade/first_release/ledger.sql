BEGIN TRANSACTION;
CREATE TABLE account_tables (
	identity TEXT NOT NULL, 
	account TEXT NOT NULL, 
	PRIMARY KEY (identity), 
	FOREIGN KEY(account) REFERENCES accounts (name)
);
INSERT INTO "account_tables" VALUES('file:///srv/lake/visits','visits');
INSERT INTO "account_tables" VALUES('file:///srv/lake/sales','sales');
CREATE TABLE accounts (
	name TEXT NOT NULL, 
	composition TEXT NOT NULL, 
	epsilon TEXT NOT NULL, 
	delta TEXT NOT NULL, 
	rho TEXT, 
	neighbours TEXT NOT NULL, 
	unit_column TEXT, 
	unit_max_rows INTEGER NOT NULL, 
	opened_at TEXT NOT NULL, 
	opened_by TEXT NOT NULL, blocks TEXT, unit_stays INTEGER DEFAULT '1' NOT NULL, slack TEXT DEFAULT '0' NOT NULL, public_sizes INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "accounts" VALUES('visits','approximate','10','0.0001','1.7275206069094181691878322738','add_remove','person',2,'2026-11-22T12:01:15.842067+00:00','dpo','{"by":"month","column":"visited_on","values":null}',0,'0.00005',0);
INSERT INTO "accounts" VALUES('sales','pure','10','0',NULL,'replace_one',NULL,1,'2026-11-22T12:01:15.885417+00:00','dpo',NULL,1,'0',1);
CREATE TABLE allotments (
	account TEXT NOT NULL, 
	name TEXT NOT NULL, 
	epsilon TEXT NOT NULL, 
	delta TEXT NOT NULL, 
	rho TEXT, 
	slack TEXT NOT NULL, 
	PRIMARY KEY (account, name), 
	FOREIGN KEY(account) REFERENCES accounts (name)
);
INSERT INTO "allotments" VALUES('sales','shops','5','0',NULL,'0');
CREATE TABLE audit_head (
	id INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, frozen TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT audit_head_is_one_row CHECK (id = 1)
);
INSERT INTO "audit_head" VALUES(1,20,'29f5bb25a146afe8159fde2757cd67459ebddd88192f8489721a25c40f0a98e4','45f1e391d77f3f9347459d0d6493abfe79d6c8d55f729fa350bbebc1a972ebfb','');
CREATE TABLE audit_log (
	seq INTEGER NOT NULL, 
	at TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	action TEXT NOT NULL, 
	account TEXT NOT NULL, 
	charge TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	details TEXT NOT NULL, 
	previous TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "audit_log" VALUES(1,'2026-11-22T12:01:15.842067+00:00','dpo','opened','visits','','','{"blocks":"{\"by\":\"month\",\"column\":\"visited_on\",\"values\":null}","composition":"approximate","delta":"0.0001","epsilon":"10","neighbours":"add_remove","public_sizes":0,"rho":"1.7275206069094181691878322738","slack":"0.00005","tables":["file:///srv/lake/visits"],"unit_column":"person","unit_max_rows":2,"unit_stays":0}','0000000000000000000000000000000000000000000000000000000000000000','9d5073b9c70582a2d7fe95bd0754212e9a50f85ba878689cbb3d1455a5fad197');
INSERT INTO "audit_log" VALUES(2,'2026-11-22T12:01:15.885417+00:00','dpo','opened','sales','','','{"blocks":null,"composition":"pure","delta":"0","epsilon":"10","neighbours":"replace_one","public_sizes":1,"rho":null,"slack":"0","tables":["file:///srv/lake/sales"],"unit_column":null,"unit_max_rows":1,"unit_stays":1}','9d5073b9c70582a2d7fe95bd0754212e9a50f85ba878689cbb3d1455a5fad197','e07778808f7194c84224b44caeeec88bd27504ae8c3009611a19f1a73b5af873');
INSERT INTO "audit_log" VALUES(3,'2026-11-22T12:01:15.906345+00:00','dpo','allotted','sales','','','{"delta":"0","epsilon":"5","name":"shops","rho":null,"slack":"0"}','e07778808f7194c84224b44caeeec88bd27504ae8c3009611a19f1a73b5af873','03fb382771f10c9ebfbedcdca686e7aa4d4f1d02e5f50b51e97cba98f62b2b14');
INSERT INTO "audit_log" VALUES(4,'2026-11-22T12:01:24.735620+00:00','airflow','reserved','visits','a9901d641063d069878a377304846dd0','','{"allotment":"","blocks":["2026-10"],"delta":"0.000001","epsilon":"0.5","events":[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}],"generation":1,"release_key":"airflow/monthly/2026-11-01T00:00:00Z/published/-1","request_sha256":"af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a","rho":"0.125"}','03fb382771f10c9ebfbedcdca686e7aa4d4f1d02e5f50b51e97cba98f62b2b14','204b850971b95a808d8dac3f4bb1adf3c27c686201b2c8bc7eee2b6b0c71abeb');
INSERT INTO "audit_log" VALUES(5,'2026-11-22T12:03:36.095315+00:00','airflow','committed','visits','a9901d641063d069878a377304846dd0','','{"events":[{"epsilon":"0.025","label":"auc: sizes of the classes","mechanism":"pure"},{"epsilon":"0.475","label":"auc: area under the curve","mechanism":"pure"}],"manifest_sha256":"4bcafe9588b7b6902d8e558ea65d8e5fd1a4991fe9c9544f7e96c9b573a21aec"}','204b850971b95a808d8dac3f4bb1adf3c27c686201b2c8bc7eee2b6b0c71abeb','79a8409da93f3267f898d1176bc0f057ab7e8a3f552f729832787ca6d59a0749');
INSERT INTO "audit_log" VALUES(6,'2026-11-22T12:03:56.569571+00:00','airflow','reserved','sales','00773cd2c251254af558a83c8a13fd3d','','{"allotment":"shops","blocks":["all"],"delta":"0","epsilon":"1","events":[{"epsilon":"1","mechanism":"pure"}],"generation":1,"release_key":"airflow/monthly/2026-11-01T00:00:00Z/published_sales/-1","request_sha256":"b499ac4f98d113669be0d4eabf15b9cd20acc6ff85ceb98032af126855925627","rho":null}','79a8409da93f3267f898d1176bc0f057ab7e8a3f552f729832787ca6d59a0749','0ee0aaa94807bfe81dd2efef57a6787fffcaf8122ac0f3a0546ed7bf33c754c9');
INSERT INTO "audit_log" VALUES(7,'2026-11-22T12:07:13.575073+00:00','airflow','committed','sales','00773cd2c251254af558a83c8a13fd3d','','{"events":[{"epsilon":"1","label":"linear_regression: lines of 2 groups, in parallel","mechanism":"pure"}],"manifest_sha256":"41104c63337e4267f1dfaffe1e436df79409efe2ea7884f357f7d3b08dc18d8a"}','0ee0aaa94807bfe81dd2efef57a6787fffcaf8122ac0f3a0546ed7bf33c754c9','05142bdf0ef3743ac093f88e70038501506fbc3641983b6d6b83cbae9146f09b');
INSERT INTO "audit_log" VALUES(8,'2026-11-22T12:07:58.320405+00:00','airflow','reserved','visits','b95fa55d562adcaa5f722103cc774678','','{"allotment":"","blocks":["2026-10"],"delta":"0.000001","epsilon":"0.5","events":[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}],"generation":1,"release_key":"airflow/monthly/2026-11-01T00:00:00Z/not_started/-1","request_sha256":"af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a","rho":"0.125"}','05142bdf0ef3743ac093f88e70038501506fbc3641983b6d6b83cbae9146f09b','6786edd77799ee597570ec625c662d834e465a5ec05e2a69060a5af9f446d8a6');
INSERT INTO "audit_log" VALUES(9,'2026-11-22T12:08:17.674773+00:00','airflow','reserved','visits','5049a0e4e724289f65ae243c1441c008','','{"allotment":"","blocks":["2026-10"],"delta":"0.000001","epsilon":"0.5","events":[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}],"generation":1,"release_key":"airflow/monthly/2026-11-01T00:00:00Z/drawn/-1","request_sha256":"af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a","rho":"0.125"}','6786edd77799ee597570ec625c662d834e465a5ec05e2a69060a5af9f446d8a6','1c8d36404f8350a329527f24ed141680513da3e3dcfd978b7094d474ceb2e623');
INSERT INTO "audit_log" VALUES(10,'2026-11-22T12:11:15.118407+00:00','airflow','reserved','sales','0747ab146791507c03f61d3f7e1b27a3','','{"allotment":"shops","blocks":["all"],"delta":"0","epsilon":"1","events":[{"epsilon":"1","mechanism":"pure"}],"generation":1,"release_key":"airflow/monthly/2026-11-01T00:00:00Z/drafted/-1","request_sha256":"b499ac4f98d113669be0d4eabf15b9cd20acc6ff85ceb98032af126855925627","rho":null}','1c8d36404f8350a329527f24ed141680513da3e3dcfd978b7094d474ceb2e623','851f380540d832a6aa2af4004b4a8a5a1c0794a084f04d8a2cf221e581efb3f1');
INSERT INTO "audit_log" VALUES(11,'2026-11-22T12:14:17.805263+00:00','airflow','reserved','visits','703dba20aa14ae5de7781a66fe800371','','{"allotment":"","blocks":["2026-10"],"delta":"0.000001","epsilon":"0.5","events":[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}],"generation":1,"release_key":"airflow/monthly/2026-11-01T00:00:00Z/committed/-1","request_sha256":"af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a","rho":"0.125"}','851f380540d832a6aa2af4004b4a8a5a1c0794a084f04d8a2cf221e581efb3f1','d5eb8da43086f9433f419409c8a7c3ce3a9aadd2b6087d5d599e5969de0d53c5');
INSERT INTO "audit_log" VALUES(12,'2026-11-22T12:16:26.999281+00:00','airflow','committed','visits','703dba20aa14ae5de7781a66fe800371','','{"events":[{"epsilon":"0.025","label":"auc: sizes of the classes","mechanism":"pure"},{"epsilon":"0.475","label":"auc: area under the curve","mechanism":"pure"}],"manifest_sha256":"616edcb885c799efd0e1d8e7b80f66e14191d4c6142861ead9e6fd11aab6c84b"}','d5eb8da43086f9433f419409c8a7c3ce3a9aadd2b6087d5d599e5969de0d53c5','a11f10a16292614059c056fc13502d850c98c616c8043eb0f7f5a7a7eea54656');
INSERT INTO "audit_log" VALUES(13,'2026-11-22T12:16:45.582532+00:00','airflow','reserved','sales','2c9a755d8d99ab165988635db3371dc7','','{"allotment":"shops","blocks":["all"],"delta":"0","epsilon":"1","events":[{"epsilon":"1","mechanism":"pure"}],"generation":1,"release_key":"airflow/monthly/2026-11-01T00:00:00Z/half_published/-1","request_sha256":"b499ac4f98d113669be0d4eabf15b9cd20acc6ff85ceb98032af126855925627","rho":null}','a11f10a16292614059c056fc13502d850c98c616c8043eb0f7f5a7a7eea54656','d4ce8e23f411e5a2af4f7335fd23a0b5da0a5675c12a709a72f8a626af776c9d');
INSERT INTO "audit_log" VALUES(14,'2026-11-22T12:19:11.547154+00:00','airflow','committed','sales','2c9a755d8d99ab165988635db3371dc7','','{"events":[{"epsilon":"1","label":"linear_regression: lines of 2 groups, in parallel","mechanism":"pure"}],"manifest_sha256":"1606571cbd18747fc23da89b82f81ad345e76e8b20ffbbd5a4a482c203495286"}','d4ce8e23f411e5a2af4f7335fd23a0b5da0a5675c12a709a72f8a626af776c9d','b1ca4d4220d42cebd9c862916c3fc7e705fb81cc299e619734aa370bd7bfa1ff');
INSERT INTO "audit_log" VALUES(15,'2026-11-22T12:19:43.149991+00:00','airflow','reserved','visits','413e6008c90e30d7bf0e10f5ff1cb6e4','','{"allotment":"","blocks":["2026-10"],"delta":"0.000001","epsilon":"0.5","events":[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}],"generation":1,"release_key":"airflow/monthly/2026-11-01T00:00:00Z/burnt/-1","request_sha256":"af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a","rho":"0.125"}','b1ca4d4220d42cebd9c862916c3fc7e705fb81cc299e619734aa370bd7bfa1ff','e66f1f86524d2ca6d4beb070f1839882ccb7353b9bf719051eaf729f0fee0c0a');
INSERT INTO "audit_log" VALUES(16,'2026-11-22T12:22:45.213853+00:00','dpo','burnt','visits','413e6008c90e30d7bf0e10f5ff1cb6e4','no longer needed','{"events":[{"epsilon":"0.025","label":"auc: sizes of the classes","mechanism":"pure"},{"epsilon":"0.475","label":"auc: area under the curve","mechanism":"pure"}],"manifest_sha256":null}','e66f1f86524d2ca6d4beb070f1839882ccb7353b9bf719051eaf729f0fee0c0a','de67865761c9f49759841ccdb4df631df6a909cac70acf7d7d3c4b118f3305e0');
INSERT INTO "audit_log" VALUES(17,'2026-11-22T12:23:19.525147+00:00','airflow','reserved','visits','aad9b2db64e3888459bfea2ce586e401','','{"allotment":"","blocks":["2026-10"],"delta":"0.000001","epsilon":"0.5","events":[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}],"generation":1,"release_key":"airflow/monthly/2026-11-01T00:00:00Z/void/-1","request_sha256":"af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a","rho":"0.125"}','de67865761c9f49759841ccdb4df631df6a909cac70acf7d7d3c4b118f3305e0','ef884180f1e39556f3f6c5b07d47e208e3bd77be8e7010e9abc261b9a96a56c8');
INSERT INTO "audit_log" VALUES(18,'2026-11-22T12:23:19.787041+00:00','dpo','void','visits','aad9b2db64e3888459bfea2ce586e401','no longer needed','{"manifest_sha256":null}','ef884180f1e39556f3f6c5b07d47e208e3bd77be8e7010e9abc261b9a96a56c8','39b7719ded33e348528efe30322f509fbaeee647cc4c4b1d162ef64421bc6b65');
INSERT INTO "audit_log" VALUES(19,'2026-11-22T12:23:58.453011+00:00','airflow','reserved','visits','3fd6e4d7cbf9aa4d58643fa9d1e3a595','','{"allotment":"","blocks":["2026-10"],"delta":"0.000001","epsilon":"0.5","events":[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}],"generation":1,"release_key":"cli/44a42275bdef1a188ef0f0534e6463cceab24e9e8fbf4047c3e78ed00ff7ffdd","request_sha256":"af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a","rho":"0.125"}','39b7719ded33e348528efe30322f509fbaeee647cc4c4b1d162ef64421bc6b65','29f5bb25a146afe8159fde2757cd67459ebddd88192f8489721a25c40f0a98e4');
INSERT INTO "audit_log" VALUES(20,'2026-11-22T12:27:43.904970+00:00','airflow','committed','visits','3fd6e4d7cbf9aa4d58643fa9d1e3a595','','{"events":[{"epsilon":"0.025","label":"auc: sizes of the classes","mechanism":"pure"},{"epsilon":"0.475","label":"auc: area under the curve","mechanism":"pure"}],"manifest_sha256":"d1bd7e1f0d28decaa276b9e5ebc7dfcda0269f7b8daffb5febe4786041143a73"}','29f5bb25a146afe8159fde2757cd67459ebddd88192f8489721a25c40f0a98e4','45f1e391d77f3f9347459d0d6493abfe79d6c8d55f729fa350bbebc1a972ebfb');
CREATE TABLE block_totals (
	account TEXT NOT NULL, 
	allotment TEXT NOT NULL, 
	block TEXT NOT NULL, 
	epsilon TEXT NOT NULL, 
	delta TEXT NOT NULL, 
	rho TEXT, 
	PRIMARY KEY (account, allotment, block), 
	FOREIGN KEY(account) REFERENCES accounts (name)
);
INSERT INTO "block_totals" VALUES('visits','','all','3','0.000006','0.75');
INSERT INTO "block_totals" VALUES('sales','','all','3','0',NULL);
INSERT INTO "block_totals" VALUES('sales','shops','all','3','0',NULL);
CREATE TABLE charges (
	id TEXT NOT NULL, 
	account TEXT NOT NULL, 
	release_key TEXT NOT NULL, 
	generation INTEGER NOT NULL, 
	entry INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	epsilon TEXT NOT NULL, 
	delta TEXT NOT NULL, 
	rho TEXT, 
	blocks TEXT NOT NULL, 
	events TEXT NOT NULL, 
	request_sha256 TEXT NOT NULL, 
	manifest_sha256 TEXT, 
	actor TEXT NOT NULL, 
	reserved_at TEXT NOT NULL, 
	renewed_at TEXT NOT NULL, 
	settled_at TEXT, allotment TEXT DEFAULT '' NOT NULL, drawn_events TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT charge_state CHECK (state IN ('reserved', 'committed', 'burnt', 'void')), 
	CONSTRAINT charge_generation UNIQUE (account, release_key, generation), 
	FOREIGN KEY(account) REFERENCES accounts (name)
);
INSERT INTO "charges" VALUES('a9901d641063d069878a377304846dd0','visits','airflow/monthly/2026-11-01T00:00:00Z/published/-1',1,4,'committed','0.5','0.000001','0.125','["2026-10"]','[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}]','af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a','4bcafe9588b7b6902d8e558ea65d8e5fd1a4991fe9c9544f7e96c9b573a21aec','airflow','2026-11-22T12:01:24.735620+00:00','2026-11-22T12:02:25.293281+00:00','2026-11-22T12:03:36.095315+00:00','','[{"epsilon":"0.025","label":"auc: sizes of the classes","mechanism":"pure"},{"epsilon":"0.475","label":"auc: area under the curve","mechanism":"pure"}]');
INSERT INTO "charges" VALUES('00773cd2c251254af558a83c8a13fd3d','sales','airflow/monthly/2026-11-01T00:00:00Z/published_sales/-1',1,6,'committed','1','0',NULL,'["all"]','[{"epsilon":"1","mechanism":"pure"}]','b499ac4f98d113669be0d4eabf15b9cd20acc6ff85ceb98032af126855925627','41104c63337e4267f1dfaffe1e436df79409efe2ea7884f357f7d3b08dc18d8a','airflow','2026-11-22T12:03:56.569571+00:00','2026-11-22T12:06:01.511699+00:00','2026-11-22T12:07:13.575073+00:00','shops','[{"epsilon":"1","label":"linear_regression: lines of 2 groups, in parallel","mechanism":"pure"}]');
INSERT INTO "charges" VALUES('b95fa55d562adcaa5f722103cc774678','visits','airflow/monthly/2026-11-01T00:00:00Z/not_started/-1',1,8,'reserved','0.5','0.000001','0.125','["2026-10"]','[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}]','af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a',NULL,'airflow','2026-11-22T12:07:58.320405+00:00','2026-11-22T12:07:58.320405+00:00',NULL,'',NULL);
INSERT INTO "charges" VALUES('5049a0e4e724289f65ae243c1441c008','visits','airflow/monthly/2026-11-01T00:00:00Z/drawn/-1',1,9,'reserved','0.5','0.000001','0.125','["2026-10"]','[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}]','af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a',NULL,'airflow','2026-11-22T12:08:17.674773+00:00','2026-11-22T12:10:23.184270+00:00',NULL,'',NULL);
INSERT INTO "charges" VALUES('0747ab146791507c03f61d3f7e1b27a3','sales','airflow/monthly/2026-11-01T00:00:00Z/drafted/-1',1,10,'reserved','1','0',NULL,'["all"]','[{"epsilon":"1","mechanism":"pure"}]','b499ac4f98d113669be0d4eabf15b9cd20acc6ff85ceb98032af126855925627',NULL,'airflow','2026-11-22T12:11:15.118407+00:00','2026-11-22T12:12:24.807852+00:00',NULL,'shops',NULL);
INSERT INTO "charges" VALUES('703dba20aa14ae5de7781a66fe800371','visits','airflow/monthly/2026-11-01T00:00:00Z/committed/-1',1,11,'committed','0.5','0.000001','0.125','["2026-10"]','[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}]','af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a','616edcb885c799efd0e1d8e7b80f66e14191d4c6142861ead9e6fd11aab6c84b','airflow','2026-11-22T12:14:17.805263+00:00','2026-11-22T12:15:22.249822+00:00','2026-11-22T12:16:26.999281+00:00','','[{"epsilon":"0.025","label":"auc: sizes of the classes","mechanism":"pure"},{"epsilon":"0.475","label":"auc: area under the curve","mechanism":"pure"}]');
INSERT INTO "charges" VALUES('2c9a755d8d99ab165988635db3371dc7','sales','airflow/monthly/2026-11-01T00:00:00Z/half_published/-1',1,13,'committed','1','0',NULL,'["all"]','[{"epsilon":"1","mechanism":"pure"}]','b499ac4f98d113669be0d4eabf15b9cd20acc6ff85ceb98032af126855925627','1606571cbd18747fc23da89b82f81ad345e76e8b20ffbbd5a4a482c203495286','airflow','2026-11-22T12:16:45.582532+00:00','2026-11-22T12:17:53.498239+00:00','2026-11-22T12:19:11.547154+00:00','shops','[{"epsilon":"1","label":"linear_regression: lines of 2 groups, in parallel","mechanism":"pure"}]');
INSERT INTO "charges" VALUES('413e6008c90e30d7bf0e10f5ff1cb6e4','visits','airflow/monthly/2026-11-01T00:00:00Z/burnt/-1',1,15,'burnt','0.5','0.000001','0.125','["2026-10"]','[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}]','af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a',NULL,'airflow','2026-11-22T12:19:43.149991+00:00','2026-11-22T12:21:44.314205+00:00','2026-11-22T12:22:45.213853+00:00','','[{"epsilon":"0.025","label":"auc: sizes of the classes","mechanism":"pure"},{"epsilon":"0.475","label":"auc: area under the curve","mechanism":"pure"}]');
INSERT INTO "charges" VALUES('aad9b2db64e3888459bfea2ce586e401','visits','airflow/monthly/2026-11-01T00:00:00Z/void/-1',1,17,'void','0.5','0.000001','0.125','["2026-10"]','[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}]','af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a',NULL,'airflow','2026-11-22T12:23:19.525147+00:00','2026-11-22T12:23:19.525147+00:00','2026-11-22T12:23:19.787041+00:00','',NULL);
INSERT INTO "charges" VALUES('3fd6e4d7cbf9aa4d58643fa9d1e3a595','visits','cli/44a42275bdef1a188ef0f0534e6463cceab24e9e8fbf4047c3e78ed00ff7ffdd',1,19,'committed','0.5','0.000001','0.125','["2026-10"]','[{"delta":"0.000001","epsilon":"0.5","mechanism":"approximate"}]','af467ec52fd2555db0cc4170a4a1080998b69ab258d270bcf0494d484b02f78a','d1bd7e1f0d28decaa276b9e5ebc7dfcda0269f7b8daffb5febe4786041143a73','airflow','2026-11-22T12:23:58.453011+00:00','2026-11-22T12:26:05.016657+00:00','2026-11-22T12:27:43.904970+00:00','','[{"epsilon":"0.025","label":"auc: sizes of the classes","mechanism":"pure"},{"epsilon":"0.475","label":"auc: area under the curve","mechanism":"pure"}]');
CREATE TABLE ledger_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT ledger_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "ledger_version" VALUES('0004');
CREATE INDEX ix_account_tables_account ON account_tables (account);
CREATE UNIQUE INDEX charge_alive ON charges (account, release_key) WHERE state <> 'void';
CREATE INDEX ix_audit_log_account ON audit_log (account);
COMMIT;
