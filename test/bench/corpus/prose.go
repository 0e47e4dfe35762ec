package corpus

import (
	"math/rand/v2"
	"strings"
)

// language is a stock of sentences.
type language struct {
	name, gap string
	sentences []string
}

// write strings sentences together, a blank line now and then.
func (l language) write(random *rand.Rand) string {
	var out strings.Builder
	for n := 0; out.Len() < Size; n++ {
		if n > 0 {
			out.WriteString(pick(random, l.gap, l.gap, l.gap, l.gap, "\n\n"))
		}
		out.WriteString(pick(random, l.sentences...))
	}
	return out.String()
}

var languages = []language{
	{"english", " ", []string{
		"The harbour was quiet when we arrived, and only a few fishermen were mending their nets on the quay.",
		"Before you change the configuration, make sure that a recent backup exists and that somebody knows how to restore it.",
		"She had promised to write every week, but the letters grew shorter and finally stopped altogether.",
		"According to the report, rainfall in the northern districts was nearly a third above the long-term average.",
		"Please read the whole question before answering, and give a reason for each of your choices.",
		"Nobody could explain why the machine kept restarting at exactly half past three in the morning.",
		"The museum's new wing, which opened last spring, shows paintings that had been in storage for decades.",
		"If the pressure rises above the recommended value, close the valve slowly and wait for ten minutes.",
		"My grandfather used to say that patience is cheaper than regret.",
		"The committee agreed to postpone the decision until the missing figures had been checked by an independent auditor.",
	}},
	{"german", " ", []string{
		"Die Straßenbahn fuhr an diesem Morgen mit zwanzig Minuten Verspätung, weil ein Lastwagen die Kreuzung blockierte.",
		"Bitte überprüfen Sie die Einstellungen, bevor Sie das Programm zum ersten Mal starten.",
		"In der Werkstatt roch es nach Öl, Holzspänen und frisch gebrühtem Kaffee.",
		"Die Bundesregierung hat angekündigt, die Förderung für erneuerbare Energien schrittweise zu erhöhen.",
		"Er wusste nicht, ob er sich über die unerwartete Einladung freuen oder ärgern sollte.",
		"Für die Datensicherung empfiehlt sich ein getrennter Speicherort, der regelmäßig kontrolliert wird.",
		"Am Nachmittag zogen dunkle Wolken auf, und wenig später begann es heftig zu hageln.",
		"Die Geschwindigkeitsbegrenzung gilt nur zwischen sechs Uhr morgens und zehn Uhr abends.",
		"Niemand hatte damit gerechnet, dass die Verhandlungen so schnell abgeschlossen würden.",
	}},
	{"french", " ", []string{
		"Le marché se tient chaque samedi matin sur la place de l'église, été comme hiver.",
		"Avant de lancer la mise à jour, vérifiez que tous les fichiers ont bien été enregistrés.",
		"Elle s'était levée tôt pour préparer le dossier, mais la réunion fut annulée au dernier moment.",
		"Les chercheurs ont observé une légère augmentation de la température moyenne depuis une trentaine d'années.",
		"Il n'y avait plus personne dans la gare, hormis un vieil homme qui lisait son journal.",
		"Le règlement prévoit que chaque participant dispose de quinze minutes pour présenter ses résultats.",
		"Malgré la pluie, les enfants continuaient à jouer dans la cour de l'école.",
		"On raconte que le château fut construit en moins de deux ans par des ouvriers venus d'Italie.",
	}},
	{"spanish", " ", []string{
		"El tren de las ocho siempre llega puntual, aunque hoy se retrasó por una avería en la vía.",
		"Antes de instalar el programa, compruebe que dispone de espacio suficiente en el disco.",
		"La abuela guardaba las cartas en una caja de madera debajo de la cama.",
		"Según las autoridades, más de tres mil personas participaron en la manifestación del domingo.",
		"No entendía por qué sus vecinos habían pintado la casa de un color tan extraño.",
		"El informe señala que la producción agrícola disminuyó a causa de la sequía prolongada.",
		"Cuando terminó la película, nos quedamos un rato en silencio mirando los créditos.",
		"Los estudiantes deberán entregar el trabajo antes del viernes a las doce de la noche.",
	}},
	{"russian", " ", []string{
		"Утром над рекой стоял густой туман, и паром отправился с опозданием почти на час.",
		"Перед обновлением системы обязательно сохраните все открытые документы и закройте приложения.",
		"В библиотеке было тихо, только изредка скрипели старые деревянные полы.",
		"По данным исследователей, численность птиц в этом районе за последние десять лет заметно сократилась.",
		"Он долго не решался позвонить, потому что не знал, с чего начать разговор.",
		"Правительство рассматривает возможность снижения налогов для небольших предприятий.",
		"После ужина мы вышли на балкон и долго смотрели на огни вечернего города.",
		"Каждый участник соревнований должен иметь при себе паспорт и медицинскую справку.",
	}},
	{"chinese", "", []string{
		"清晨的市场已经十分热闹，卖菜的老人把新鲜的蔬菜整整齐齐地摆在地上。",
		"在修改配置文件之前，请先备份原来的数据，并确认服务已经停止。",
		"他从来没有想过，二十年以后还会回到这座小城当老师。",
		"根据最新的统计，今年前三个季度的出口总额比去年同期增长了百分之六。",
		"如果温度超过规定的范围，系统会自动关闭阀门并发出警报。",
		"她把信读了两遍，然后慢慢地放进抽屉里，什么也没有说。",
		"博物馆每周一闭馆，其余时间从上午九点开放到下午五点。",
		"专家认为，保护传统手工艺的关键在于培养年轻一代的兴趣。",
	}},
	{"japanese", "", []string{
		"朝の駅は通勤する人でいっぱいで、ホームには長い列ができていた。",
		"設定を変更する前に、必ずデータのバックアップを取ってください。",
		"祖母が作ってくれた味噌汁の味を、今でもはっきりと覚えている。",
		"調査によると、この地域の人口は十年間でおよそ二割減少したという。",
		"電車が遅れているため、会議の開始時間を三十分後に変更します。",
		"彼女は窓の外を眺めながら、子どもの頃に住んでいた町のことを考えていた。",
		"エラーが発生した場合は、ログファイルを確認してからサポートに連絡してください。",
		"この橋は百年以上前に建てられたもので、今も多くの観光客が訪れる。",
	}},
	{"hindi", " ", []string{
		"सुबह की पहली ट्रेन आज एक घंटे की देरी से स्टेशन पर पहुँची।",
		"कृपया सेटिंग बदलने से पहले अपनी सभी फ़ाइलों की एक प्रति सुरक्षित रख लें।",
		"गाँव के बीचोंबीच एक पुराना बरगद का पेड़ है जिसके नीचे बच्चे खेलते हैं।",
		"रिपोर्ट के अनुसार पिछले वर्ष की तुलना में इस बार वर्षा अधिक हुई है।",
		"उसने बहुत देर तक सोचा और फिर बिना कुछ कहे कमरे से बाहर चला गया।",
		"सरकार ने छोटे किसानों के लिए एक नई योजना की घोषणा की है।",
		"पुस्तकालय सोमवार को बंद रहता है और बाकी दिनों में शाम छह बजे तक खुला रहता है।",
	}},
	{"arabic", " ", []string{
		"كان السوق مزدحما في الصباح الباكر، وكانت رائحة الخبز الطازج تملأ الشوارع الضيقة.",
		"قبل تحديث النظام، يرجى حفظ جميع الملفات المفتوحة وإغلاق البرامج.",
		"لم يكن أحد يتوقع أن تنتهي المفاوضات بهذه السرعة.",
		"وفقا للتقرير، ارتفعت درجات الحرارة في المنطقة خلال العقود الثلاثة الماضية.",
		"جلس الرجل العجوز أمام البحر يتأمل الأمواج ويفكر في أيام شبابه.",
		"تفتح المكتبة أبوابها كل يوم من الساعة التاسعة صباحا حتى الخامسة مساء.",
	}},
	{"korean", " ", []string{
		"아침 일찍 시장에 나가 보니 상인들이 벌써 가게 문을 열고 있었다.",
		"설정을 변경하기 전에 반드시 중요한 파일을 백업해 두시기 바랍니다.",
		"할머니께서 끓여 주신 된장찌개의 맛을 아직도 잊을 수가 없다.",
		"조사에 따르면 이 지역의 인구는 지난 십 년 동안 크게 줄어들었다.",
		"회의가 예정보다 길어져서 저녁 약속에 늦을 것 같습니다.",
		"그는 아무 말도 하지 않고 창밖의 비 내리는 거리를 바라보았다.",
	}},
}
